"""SHA-256 of files, remembered by size and modification time so that a start does not read every weight twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from paradraft.hub.cache import cache_folder

_BLOCK = 1 << 22
_MAX_REMEMBERED = 512


def file_digest(path: Path, *, start: int = 0) -> str:
    """Return the SHA-256 of a file from byte `start` on, in hexadecimal.

    A file unchanged in size and time is not read again.
    """
    path = path.resolve()
    stamp = _stamp(path)
    known = _read()
    entry = known.get(_key(path, start))
    if entry is not None and entry[:2] == list(stamp):
        return str(entry[2])
    digest = compute_digest(path, start=start)
    if _stamp(path) == stamp:
        remember(path, digest, start=start)
    return digest


def remember(path: Path, digest: str, *, start: int = 0) -> None:
    """Note the digest of a file as it is now. A cache that cannot be written costs time only, so it is no error."""
    path = path.resolve()
    known, key = _read(), _key(path, start)
    known.pop(key, None)
    known[key] = [*_stamp(path), digest]
    text = json.dumps(dict(list(known.items())[-_MAX_REMEMBERED:]), indent=0)
    file = _file()
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)


def combined_digest(paths: Iterable[Path]) -> str:
    """Return one SHA-256 for a set of files: the file's own if it is one, else that of their names and digests."""
    ordered = sorted(paths, key=lambda path: path.name)
    if len(ordered) == 1:
        return file_digest(ordered[0])
    lines = "".join(f"{file_digest(path)}  {path.name}\n" for path in ordered)
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def compute_digest(path: Path, *, start: int = 0) -> str:
    """Return the SHA-256 of a file from byte `start` on, in hexadecimal, read now."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _key(path: Path, start: int) -> str:
    return f"{path}+{start}" if start else str(path)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _file() -> Path:
    return cache_folder() / "digests.json"


def _read() -> dict[str, list[int | str]]:
    try:
        known = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {path: entry for path, entry in known.items() if _is_entry(entry)} if isinstance(known, dict) else {}


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], str)
