"""Clients that a library would not let one write: half requests, no reading, odd headers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from support.serving import Served


@contextmanager
def connected(server: Served, *, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    """Yield a connection that waits at most ten seconds; receive_bytes: how little the system keeps for the reader."""
    place = urlsplit(server.url)
    with socket.socket() as wire:
        if receive_bytes is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        wire.settimeout(10)
        wire.connect((place.hostname, place.port))
        yield wire


def post(path: str, body: object, *headers: str, host: str = "localhost") -> bytes:
    """Return the bytes of a request."""
    content = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def get(path: str, *headers: str, host: str = "localhost") -> bytes:
    """Return the bytes of a request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *headers]).encode() + b"\r\n\r\n"


def read_all(wire: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    received = b""
    while True:
        try:
            piece = wire.recv(65536)
        except ConnectionResetError:
            return received
        if not piece:
            return received
        received += piece


def asked(server: Served, request: bytes) -> tuple[int, str]:
    """Send a request on a connection of its own and return the status and the rest."""
    with connected(server) as wire:
        wire.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        received = read_all(wire).decode("latin-1")
    return int(received.split(" ", 2)[1]), received
