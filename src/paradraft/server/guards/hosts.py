"""Which names a server answers to: a page that was lured here by another name gets nothing."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from paradraft.server.errors import ApiError, error_response
from paradraft.server.guards.keys import OPEN_PATHS


class HostGuard:
    """Middleware that refuses a Host header which is not among the trusted ones; `*` trusts any.

    It protects a server on loopback against pages whose name was made to resolve to it (DNS rebinding). Health is told
    under any name, because probes use addresses.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app = app
        self._trusted = frozenset(name.lower() for name in trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 400."""
        is_open = scope["type"] == "lifespan" or scope.get("path") in OPEN_PATHS
        if is_open or "*" in self._trusted or _host_in(scope) in self._trusted:
            await self._app(scope, receive, send)
            return
        error = ApiError(400, "This server does not answer to that host name.", code="untrusted_host")
        await error_response(error)(scope, receive, send)


def _host_in(scope: Scope) -> str:
    """Return the host name without its port, in lower letters."""
    header = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
