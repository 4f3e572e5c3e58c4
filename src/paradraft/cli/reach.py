"""Who can reach a server, and who is answered: addresses and keys, checked before anything is loaded."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ConfigError
from paradraft.server.doors import Address, Door
from paradraft.server.guards.keys import Keys
from paradraft.server.operators import Access

KEYS_VARIABLE = "PARADRAFT_API_KEYS"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Where a server is to be found, and who is answered there."""

    address: Address
    access: Access


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The same, with the address taken."""

    door: Door
    access: Access


@contextmanager
def taken(reach: Reach) -> Iterator[Place]:
    """Hold an address; raise ConfigError where it cannot be had."""
    with Door(reach.address) as door:
        yield Place(door=door, access=reach.access)


def public_reach(host: str, port: int, keys: Keys, names: Sequence[str]) -> Reach:
    """Return the reach of the server itself; raise ConfigError where its address needs keys and there are none."""
    return _reach(Address(host=host, port=port), keys, names)


def operators_reach(
    host: str | None, port: int | None, public: Reach, keys: Keys, names: Sequence[str]
) -> Reach | None:
    """Return the reach of metrics and health, None where they have no port of their own. Loopback needs no key."""
    if port is None:
        if host is not None:
            raise ConfigError(
                f"--metrics-host {host} does nothing, because there is no port for metrics.",
                remedy="Name one with --metrics-port, or leave it out.",
            )
        return None
    if port and port == public.address.port:
        raise ConfigError(
            f"--metrics-port {port} is the port of the server itself.",
            remedy="Choose another one, 0 for a free one, or leave it out: metrics are at /metrics of the server then.",
        )
    address = Address(host=host or "127.0.0.1", port=port, options=("--metrics-host", "--metrics-port"))
    return _reach(address, Keys(()) if _is_loopback(address.host) else keys, names)


def read_keys(file: Path | None) -> Keys:
    """Return the keys of a file and of the environment; raise ConfigError for a file that has none to read."""
    named = os.environ.get(KEYS_VARIABLE, "").split(",")
    if file is not None:
        named += _lines_of(file)
    keys = [key.strip() for key in named if key.strip() and not key.strip().startswith("#")]
    if file is not None and not keys:
        raise ConfigError(f"--api-keys {file}: there is no API key in it.", remedy="Write one key on each line.")
    return Keys(keys)


def _lines_of(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError:
        reason = "it is no UTF-8 text"
    raise ConfigError(
        f"--api-keys {file}: the API keys cannot be read ({reason}).",
        remedy="Name a file that you may read, with one key on each line.",
    )


def _reach(address: Address, keys: Keys, names: Sequence[str]) -> Reach:
    if not len(keys) and not _is_loopback(address.host):
        raise ConfigError(
            f"{address.options[0]} {address.host} can be reached from other machines, and there are no API keys.",
            remedy=f"Name keys with --api-keys or {KEYS_VARIABLE}, or listen on 127.0.0.1.",
        )
    own = () if address.host in ("0.0.0.0", "::") else (address.host,)  # nobody can call it by these
    return Reach(address=address, access=Access(keys=keys, trusted_hosts=(*_LOOPBACK_NAMES, *own, *names)))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
