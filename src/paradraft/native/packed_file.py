"""A file of packed weights: written once, then mapped read-only, so that starting is quick and processes share it.

Little-endian. A head of 96 bytes: magic, version of this format, length of the table, size of the file, SHA-256 of the
table, SHA-256 of everything behind the table's page. Then the table, JSON. Then the parts, each at a multiple of PAGE,
with zeros between. The head is written last, so a file that was not finished has none.

Nothing in a file is trusted. A reader knows from the model which table the file must have, byte by byte, and so where
every part begins and ends; a file with another table or another size is refused before it is mapped.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.native.packing import Bytes

PAGE = 4096  # of the memory of every machine this runs on, and a multiple of what the core asks for
_FORMAT = 1
_MAGIC = b"PDPACKED"
_HEAD = struct.Struct("<8sIIQ32s32s8x")
_MOST_TABLE = 1 << 24  # bytes; a model of 1,000 layers needs a tenth
_ANEW = "Remove it; it is made anew when the model is next started."


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One array of a file, and what it is made of."""

    tensors: tuple[str, ...]  # by name, joined along their outputs
    form: str  # a kind of packed matrix, or how else the values lie
    shape: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedTable:
    """What a file holds: of which weights, packed how, and the parts in the order in which they lie."""

    identity: Mapping[str, str | int]  # whatever makes the bytes what they are
    parts: Mapping[str, Part]

    def spans(self) -> dict[str, tuple[int, int]]:
        """Return where each part lies, as first byte and number of bytes."""
        sizes = [part.num_bytes for part in self.parts.values()]
        starts = accumulate((_to_page(size) for size in sizes[:-1]), initial=self.data_start)
        return dict(zip(self.parts, zip(starts, sizes, strict=True), strict=True))

    @property
    def data_start(self) -> int:
        """Return where the first part begins."""
        return _to_page(_HEAD.size + len(self.text()))

    @property
    def file_bytes(self) -> int:
        """Return the size of the file."""
        return self.data_start + sum(_to_page(part.num_bytes) for part in self.parts.values())

    def text(self) -> bytes:
        """Return the table as it stands in the file."""
        parts = {
            name: {"tensors": part.tensors, "form": part.form, "shape": part.shape, "bytes": part.num_bytes}
            for name, part in self.parts.items()
        }
        return json.dumps({**self.identity, "parts": parts}, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MappedFile:
    """An open file. The parts are read-only and stay valid, also when the file is removed, as long as they are held."""

    parts: Mapping[str, Bytes]
    data_digest: str  # SHA-256 in hexadecimal that the bytes from the table's data_start on must have


def write_packed(path: Path, table: PackedTable, contents: Iterable[Bytes]) -> str:
    """Write a new file and return its data_digest; contents are the bytes of the parts, in the table's order.

    When this returns, the file is on the disk. Raises OSError, FileExistsError included.
    """
    digest = hashlib.sha256()
    with path.open("xb") as file:
        file.seek(table.data_start)
        for part, content in zip(table.parts.values(), contents, strict=True):
            if content.nbytes != part.num_bytes:
                raise ValueError(f"A part of {content.nbytes} bytes was given where {part.num_bytes} belong.")
            padding = bytes(-part.num_bytes % PAGE)
            for piece in (content.data, padding):
                digest.update(piece)
                file.write(piece)
        file.seek(_HEAD.size)
        file.write(table.text())
        file.seek(0)
        file.write(_head_of(table, digest.digest()))
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def map_packed(path: Path, table: PackedTable) -> MappedFile:
    """Map a file that must have this table.

    Raises FileNotFoundError if there is none, ModelError for one that is damaged or has another table. The values
    themselves are not read: whoever does not know the file compares their hash with data_digest.
    """
    with path.open("rb") as file:
        found, text = _read_table(path, file)
        if text != table.text():
            raise ModelError(f"{path} {_difference(table, _parsed(path, text))}.", remedy=_ANEW)
        if found.size != table.file_bytes or os.fstat(file.fileno()).st_size != found.size:
            raise ModelError(f"{path} is cut short or too long.", remedy=_ANEW)
        memory = mmap.mmap(file.fileno(), table.file_bytes, access=mmap.ACCESS_READ)
    with suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_WILLNEED)  # where pages have to come from the disk, reading begins now
    whole = np.frombuffer(memory, dtype=np.uint8)
    parts = {name: whole[start : start + size] for name, (start, size) in table.spans().items()}
    return MappedFile(parts=parts, data_digest=found.data_digest.hex())


def read_identity(path: Path) -> dict[str, str | int]:
    """Return what a file says it holds, without its parts; raise OSError or ModelError if it cannot be read."""
    with path.open("rb") as file:
        content = _parsed(path, _read_table(path, file)[1])
    return {name: value for name, value in content.items() if isinstance(value, (str, int))}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Head:
    table_bytes: int
    size: int
    table_digest: bytes
    data_digest: bytes


def _head_of(table: PackedTable, data_digest: bytes) -> bytes:
    text = table.text()
    return _HEAD.pack(_MAGIC, _FORMAT, len(text), table.file_bytes, hashlib.sha256(text).digest(), data_digest)


def _read_table(path: Path, file: BinaryIO) -> tuple[_Head, bytes]:
    """Return head and table of a file, both sound; raise ModelError if they are not."""
    start = file.read(_HEAD.size)
    if len(start) < _HEAD.size or start[: len(_MAGIC)] != _MAGIC:
        raise ModelError(f"{path} is not a file of packed weights, or was not finished.", remedy=_ANEW)
    _, version, table_bytes, size, table_digest, data_digest = _HEAD.unpack(start)
    if version != _FORMAT:
        raise ModelError(f"{path} has version {version} of the format, not {_FORMAT}.", remedy=_ANEW)
    text = file.read(table_bytes) if table_bytes <= _MOST_TABLE else b""
    if len(text) != table_bytes or hashlib.sha256(text).digest() != table_digest:
        raise ModelError(f"{path} is damaged: its table is not what it was.", remedy=_ANEW)
    return _Head(table_bytes=table_bytes, size=size, table_digest=table_digest, data_digest=data_digest), text


def _parsed(path: Path, text: bytes) -> dict[str, object]:
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
        if isinstance(content, dict):
            return content
    raise ModelError(f"{path} has a table that cannot be read.", remedy=_ANEW)


def _difference(table: PackedTable, found: Mapping[str, object]) -> str:
    """Return in words how a table differs from the one that is asked for."""
    for name, value in table.identity.items():
        if found.get(name) != value:
            return f"was made for {name} {found.get(name)!r}, not {value!r}"
    return "lays the weights out otherwise than this configuration does"


def _to_page(size: int) -> int:
    return -(-size // PAGE) * PAGE
