"""Bounds on what a client may send, enforced before any of it is parsed."""

from __future__ import annotations

import asyncio

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paradraft.server.errors import ApiError, error_response
from paradraft.server.guards.nesting import NestingBound
from paradraft.server.options import ServerOptions

_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")


class BodyGuard:
    """Middleware that takes in the whole body, and refuses one that is too long, too slow, too nested or no JSON.

    The content type matters for safety too: a page of another origin can send a form or plain text to a server on
    loopback without asking, but not JSON.
    """

    def __init__(self, app: ASGIApp, *, options: ServerOptions) -> None:
        self._app = app
        self._max_bytes = options.max_body_bytes
        self._seconds = options.body_seconds
        self._nesting = NestingBound(max_lists=options.max_lists, max_depth=options.max_depth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or answer 400, 408, 413 or 415."""
        if scope["type"] != "http" or not _may_have_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            self._check(dict(scope["headers"]))
            body = await self._read(receive)
            self._nesting.check(body or b"")
            _check_json(body or b"null")
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replayed(body, receive), send)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise ApiError(415, "Send the body as application/json.", code="unsupported_media_type")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > len(str(self._max_bytes)) or int(length) > self._max_bytes:
            raise self._too_long()

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the body; None where the client left before it was whole."""
        pieces, total, is_whole = [], 0, False
        try:
            async with asyncio.timeout(self._seconds):
                while not is_whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    pieces.append(message.get("body", b""))
                    total += len(pieces[-1])
                    if total > self._max_bytes:
                        raise self._too_long()
                    is_whole = not message.get("more_body", False)
        except TimeoutError as error:
            text = f"The body did not arrive within {self._seconds:g} s."
            raise ApiError(408, text, code="body_too_slow") from error
        return b"".join(pieces)

    def _too_long(self) -> ApiError:
        return ApiError(
            413, f"The body is longer than this server's limit of {self._max_bytes} bytes.", code="body_too_long"
        )


def _check_json(body: bytes) -> None:
    """Refuse what is no JSON by the letter; the parser behind lets NaN, other encodings and half characters pass."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "The body is no JSON.", code="invalid_json") from error


def _may_have_body(scope: Scope) -> bool:
    """Return whether a request brings a body, or is of a kind that changes things."""
    if scope["method"] in _WITHOUT_BODY:
        return False
    return scope["method"] in _WITH_BODY or any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives the body, and then what else comes: that the client left."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return left.pop() if left else await receive()

    return replayed
