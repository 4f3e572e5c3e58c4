"""One process at a time fills a part of the cache. Where the platform has no file locks, atomic renames must do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from paradraft.hub.cache import write_error


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Hold the lock file for the length of the block; yield whether this platform could really lock.

    The lock goes with the process, so a crash leaves none behind. Raises ModelError if the file cannot be made.
    """
    locking = _locking()
    try:
        file = path.open("a+b")
    except OSError as error:
        raise write_error(path, error) from error
    with file:
        if locking is None:
            yield False
            return
        locking.flock(file, locking.LOCK_EX)
        yield True


def _locking() -> ModuleType | None:
    with suppress(ImportError):
        return importlib.import_module("fcntl")
    return None
