"""Bounds on what a client may send, enforced before any of it is parsed."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paradraft.server.errors import ApiError, error_response


class BodyGuard:
    """Middleware that refuses bodies that are too long or no JSON.

    The content type matters for safety too: a page of another origin can send a form or plain text to a server on
    loopback without asking, but not JSON.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413 or 415."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            self._check(headers)
            await self._app(scope, self._counted(receive), send)
        except _TooLong:
            await error_response(self._too_long())(scope, receive, send)
        except ApiError as error:
            await error_response(error)(scope, receive, send)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise ApiError(415, "Send the body as application/json.", code="unsupported_media_type")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_bytes:
            raise self._too_long()

    def _counted(self, receive: Receive) -> Receive:
        total = 0

        async def counted() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self._max_bytes:
                raise _TooLong
            return message

        return counted

    def _too_long(self) -> ApiError:
        return ApiError(
            413, f"The body is longer than this server's limit of {self._max_bytes} bytes.", code="body_too_long"
        )


class _TooLong(Exception):
    pass
