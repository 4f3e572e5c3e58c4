"""API keys: every route but health is denied without one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from paradraft.server.errors import ApiError, error_response

OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready"})
_WRONG = "The API key is missing or wrong. Send it as `Authorization: Bearer KEY`."


class Keys:
    """Known keys, as digests only. An empty set lets everybody in; the server then listens on loopback alone."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key.encode()) for key in dict.fromkeys(keys))

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._digests)

    def tenant_of(self, authorization: bytes) -> str | None:
        """Return a name for the key in this header, None if it is not known. Takes the same time for all keys."""
        given = _digest(_key_in(authorization))
        found = None
        for digest in self._digests:
            if hmac.compare_digest(digest, given):
                found = digest
        return None if found is None else found.hex()[:16]


class KeyGuard:
    """Middleware that denies by default. It reads the path that is routed, never the Host header."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] == "lifespan" or not len(self._keys) or scope.get("path") in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        tenant = self._keys.tenant_of(header)
        if tenant is None or scope["type"] != "http":
            await error_response(ApiError(401, _WRONG, code="invalid_api_key"))(scope, receive, send)
            return
        scope["paradraft.tenant"] = tenant
        await self._app(scope, receive, send)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _key_in(authorization: bytes) -> bytes:
    """Return the bearer token, or the password that a browser asked for; empty if there is neither."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
