"""Addresses and their sockets: taken before a model is loaded, opened when there is somebody to answer."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Self

from paradraft.core.errors import ConfigError

_BACKLOG = 2048  # connections that wait to be taken


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens; port 0 takes a free one. options: what the two are called where they are given."""

    host: str = "127.0.0.1"
    port: int = 8000
    options: tuple[str, str] = ("--host", "--port")

    def __str__(self) -> str:
        """Return the address as it was given."""
        return f"{self.options[0]} {self.host} {self.options[1]} {self.port}"


class Door:
    """A socket that has an address, for as long as a block lasts.

    It does not listen until it is opened: who knocks before that is turned away.
    """

    def __init__(self, address: Address) -> None:
        """Take the address; raise ConfigError where it cannot be had."""
        self._address = address
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, place = found[0]
            self.socket = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._refused(error) from error
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(place)
        except OSError as error:
            self.socket.close()
            raise self._refused(error) from error

    @property
    def url(self) -> str:
        """Return the URL it is reached by."""
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def open(self) -> None:
        """Listen; raise ConfigError where another server, which took the address as well, was faster."""
        try:
            self.socket.listen(_BACKLOG)
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Give the address back."""
        self.socket.close()

    def _refused(self, error: OSError) -> ConfigError:
        host, port = self._address.options
        return ConfigError(
            f"{self._address}: the server cannot listen there ({error.strerror}).",
            remedy=f"Choose another port with {port}, 0 for a free one, or an address of this machine with {host}.",
        )
