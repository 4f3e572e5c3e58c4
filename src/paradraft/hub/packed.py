"""The folder of the cache where packed weights are kept: how much disk they may take, and which have to go."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ConfigError, ModelError
from paradraft.hub.cache import cache_folder

# Gigabytes of disk that packed weights may take together; 0 keeps them in memory only.
LIMIT_VARIABLE = "PARADRAFT_PACKED_GB"
_DEFAULT_LIMIT = 16.0
_SUFFIX = ".packed"
_KEPT_FREE = 1 << 30  # bytes of the disk that are left to others


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedEntry:
    """One file of packed weights."""

    path: Path
    num_bytes: int
    used_at: float  # seconds since the epoch


def packed_path(name: str) -> Path:
    """Return where packed weights of this name lie once they are saved."""
    return _folder() / f"{name}{_SUFFIX}"


def packed_entries() -> list[PackedEntry]:
    """Return all files of packed weights, the last used first."""
    found = []
    for path in _folder().glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            status = path.stat()
            found.append(PackedEntry(path=path, num_bytes=status.st_size, used_at=status.st_atime))
    return sorted(found, key=lambda entry: (-entry.used_at, entry.path.name))


def remove_packed(names: list[str]) -> list[PackedEntry]:
    """Remove files of packed weights by their names and return them. A process that uses one keeps its copy.

    Raises ModelError, before anything is removed, for a name that is not there, or for a file that stays.
    """
    entries = {entry.path.stem: entry for entry in packed_entries()}
    for name in names:
        if name not in entries:
            raise ModelError(
                f"There are no packed weights {name!r}.", remedy="`paradraft models packed` lists those that are there."
            )
    for name in names:
        _remove(entries[name].path)
    return [entries[name] for name in names]


def mark_used(path: Path) -> None:
    """Note that a file is in use, so that others have to go before it."""
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def disk_limit() -> int:
    """Return the bytes that packed weights may take together, 0 if they are not to be saved; raise ConfigError."""
    stated = os.environ.get(LIMIT_VARIABLE) or str(_DEFAULT_LIMIT)
    with suppress(ValueError):
        if 0.0 <= float(stated) < float("inf"):
            return int(float(stated) * 1e9)
    raise ConfigError(
        f"{LIMIT_VARIABLE}={stated!r} is no number of gigabytes.",
        remedy="Set the disk space that packed weights may take, for example 16, or 0 to save none.",
    )


def make_room(path: Path, num_bytes: int) -> None:
    """Remove the weights that were used longest ago until this file may be added.

    Raises ModelError if it is larger than the limit or than what the disk has free; nothing is removed then.
    """
    limit = disk_limit()
    if num_bytes > limit:
        raise ModelError(
            f"{path.name} takes {_gigabytes(num_bytes)} GB, and {LIMIT_VARIABLE} allows {_gigabytes(limit)}.",
            remedy=f"Set {LIMIT_VARIABLE} higher.",
        )
    others = [entry for entry in packed_entries() if entry.path != path]
    going = []
    while others and num_bytes + sum(entry.num_bytes for entry in others) > limit:
        going.append(others.pop())
    free = shutil.disk_usage(path.parent).free + sum(entry.num_bytes for entry in going)
    if free < num_bytes + _KEPT_FREE:
        raise ModelError(
            f"{path.parent} has {_gigabytes(free)} GB free, and {path.name} takes {_gigabytes(num_bytes)}.",
            remedy="Free some space, or point PARADRAFT_CACHE at a folder on another disk.",
        )
    for entry in going:
        _remove(entry.path)


def _folder() -> Path:
    return cache_folder() / "packed"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be removed ({error.strerror or error}).", remedy="Remove it yourself."
        ) from error


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f}"
