"""Files that appear whole or not at all, so that a run may be killed at any moment."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from paradraft.core.errors import ModelError

_ABANDONED = 3600.0  # seconds; no file takes that long to write


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, put it on the disk and give it its name; nobody sees half of it.

    Raises ModelError if the disk is full or the folder cannot be written; what was there before stays.
    """
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise folder_error(path, error) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole; raises as write_whole does."""
    write_whole(path, lambda partial: _write_bytes(partial, text.encode("utf-8")))


def folder_error(path: Path, error: OSError) -> ModelError:
    """Return the ModelError that tells why a file of a run cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(
            f"{path} cannot be written: the disk is full.",
            remedy="Free some space and run the same command again; what is finished is kept.",
        )
    return ModelError(
        f"{path} cannot be written ({error.strerror or error}).",
        remedy="Make the folder writable, or choose another one.",
    )


def sweep(folder: Path) -> None:
    """Remove what killed runs left half written: files that nobody has added to for an hour."""
    for partial in folder.glob(".*.partial-*"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
