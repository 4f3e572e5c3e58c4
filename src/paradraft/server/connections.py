"""Connections of clients that send or read too slowly, or too much, are closed; the others notice nothing.

uvicorn bounds how long a connection idles between two requests. What it leaves open is bounded here: how long and how
large the head of a request may be, how long its body may take to come, how long a reader may leave what was sent to it
unread, and how many connections there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paradraft.server.errors import error_body
from paradraft.server.options import ServerOptions

_AROUND_HEADER = 4  # bytes: colon, space and line break
_LATE = 2.0  # seconds beyond the limit of a body in which its refusal may still be told


class Connection(HttpToolsProtocol):
    """One connection; limits come with the options."""

    def __init__(self, *, limits: ServerOptions, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._is_in_head = True
        self._head_bytes = 0  # received of a head that is not whole yet
        self._header_bytes = 0  # of the headers of a request, and of its trailers
        self._incoming: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, unless there are too many connections already."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._refuse(503, "There are too many connections.", code="too_many_connections")
            return
        self._await_within(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse a head that grows too long."""
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        is_too_long = self._is_in_head and self._head_bytes > self._limits.max_head_bytes
        if is_too_long and not self.transport.is_closing():
            self._refuse_head()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or a head that is too long."""
        if self._header_bytes > self._limits.max_head_bytes:
            self._refuse_head()
        else:
            self._refuse(400, msg, code="invalid_http")

    def on_message_begin(self) -> None:
        """Note that a request begins: the first of a connection is waited for already."""
        super().on_message_begin()
        self._header_bytes = 0
        if self._incoming is None:
            self._await_within(self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target of a request."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._count(len(name) + len(value) + _AROUND_HEADER)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to wait for the body."""
        super().on_headers_complete()
        self._is_in_head, self._head_bytes = False, 0
        self._await_within(self._limits.body_seconds + _LATE)

    def on_message_complete(self) -> None:
        """Wait for nothing: the next head may take as long as a connection may idle."""
        super().on_message_complete()
        self._is_in_head = True
        self._stop_waiting()

    def pause_writing(self) -> None:
        """Give the reader some time for what it was sent."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self._limits.send_seconds, self._cut)

    def resume_writing(self) -> None:
        """Note that the reader reads."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _count(self, num_bytes: int) -> None:
        self._header_bytes += num_bytes
        if self._header_bytes > self._limits.max_head_bytes:
            raise ValueError("too long")  # the parser stops, and send_400_response says why

    def _await_within(self, seconds: float) -> None:
        self._stop_waiting()
        self._incoming = self.loop.call_later(seconds, self._cut)

    def _stop_waiting(self) -> None:
        if self._incoming is not None:
            self._incoming.cancel()
            self._incoming = None

    def _cut(self) -> None:
        self.logger.info("A connection was cut: its client sent or read too slowly.")
        self.transport.abort()

    def _refuse_head(self) -> None:
        limit = self._limits.max_head_bytes
        self._refuse(431, f"The head of the request is longer than {limit} bytes.", code="head_too_long")

    def _refuse(self, status: int, message: str, *, code: str) -> None:
        body = error_body(status, message, code=code)
        retry = b"retry-after: 1\r\n" if status == 503 else b""
        self.transport.write(
            b"HTTP/1.1 %d \r\ncontent-type: application/json\r\nconnection: close\r\n%scontent-length: %d\r\n\r\n%s"
            % (status, retry, len(body), body)
        )
        self.transport.close()


def connections(limits: ServerOptions) -> Callable[..., asyncio.Protocol]:
    """Return what makes a protocol for each connection."""

    def make(**given: Any) -> Connection:
        return Connection(limits=limits, **given)

    return make
