"""The head of a GGUF file (version 2 and 3, little endian): metadata and the table of tensors, checked.

The gguf package's own reader makes an array object for every string of the vocabulary and takes seconds; this takes
a fraction of one. Format: github.com/ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from paradraft.core.errors import ModelError

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

SUPPORTED_TYPES = frozenset(
    GGMLQuantizationType[name]
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
)

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4
_MIN_ENTRY_BYTES = 12  # a metadata entry or tensor record is never shorter


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRecord:
    """Where one tensor lies and how it is stored."""

    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # as in torch: the last dimension is contiguous
    offset: int  # from the start of the file
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufHeader:
    """Metadata by key, tensors by name."""

    metadata: dict[str, Value]
    tensors: dict[str, TensorRecord]


def read_header(data: mmap.mmap | bytes, path: Path, *, with_texts: bool = True) -> GgufHeader:
    """Return the head of the file whose bytes are data; raise ModelError if it is not a sound GGUF file.

    Without with_texts lists of texts are left empty: the vocabulary is in them, and most of the work.
    """
    if data[:4] != _MAGIC:
        raise ModelError(
            f"{path} is not a GGUF file (it starts with {bytes(data[:4])!r}).", remedy="Give a .gguf file."
        )
    cursor = _Cursor(data, path, with_texts=with_texts)
    version = cursor.integer("I")
    if version not in _VERSIONS:
        raise ModelError(f"{path} is GGUF version {version}.", remedy="Versions 2 and 3, little endian, can be read.")
    num_tensors = cursor.count(_MIN_ENTRY_BYTES)
    num_entries = cursor.count(_MIN_ENTRY_BYTES)
    metadata = _read_metadata(cursor, num_entries)
    if metadata.get("split.count", 1) != 1:
        raise ModelError(
            f"{path} is one of {metadata['split.count']} parts of a split model.",
            remedy="Join them with llama.cpp's `llama-gguf-split --merge` and give the result.",
        )
    records = [_read_record(cursor) for _ in range(num_tensors)]
    return GgufHeader(metadata=metadata, tensors=_place(records, cursor, metadata))


class _Cursor:
    """Reads forward and never past the end."""

    def __init__(self, data: mmap.mmap | bytes, path: Path, *, with_texts: bool) -> None:
        self.data, self.path, self.at = data, path, len(_MAGIC)
        self.with_texts = with_texts

    def take(self, size: int) -> int:
        """Move on by size bytes and return where they start."""
        start = self.at
        if size > len(self.data) - start:
            raise ModelError(
                f"{self.path} ends in the middle of its head (at byte {len(self.data)}).",
                remedy="The file is cut short; get it again from its source.",
            )
        self.at += size
        return start

    def scalar(self, form: str) -> bool | int | float:
        """Return one number of the struct form."""
        value: bool | int | float = struct.unpack_from(f"<{form}", self.data, self.take(struct.calcsize(f"<{form}")))[0]
        return value

    def integer(self, form: str) -> int:
        """Return one whole number of the struct form."""
        return int(self.scalar(form))

    def count(self, least_bytes: int) -> int:
        """Return a number of items that take at least so many bytes each; more than fit means damage."""
        count = self.integer("Q")
        if count * least_bytes > len(self.data) - self.at:
            raise self.damaged(f"{count} items cannot fit into it")
        return count

    def string(self) -> str:
        """Return a string; bytes that are not UTF-8 become replacement characters."""
        return self.strings(1)[0]

    def strings(self, count: int) -> list[str]:
        """Return strings that follow each other. Vocabularies have hundreds of thousands, hence the bare loop."""
        data, at, end = self.data, self.at, len(self.data)
        length_at = struct.Struct("<Q").unpack_from
        found = []
        for _ in range(count):
            start = at + 8
            at = start + length_at(data, at)[0] if start <= end else end + 1
            if at > end:
                self.take(end + 1)
            found.append(data[start:at].decode("utf-8", errors="replace"))
        self.at = at
        return found

    def skip_strings(self, count: int) -> None:
        """Move on behind strings that follow each other."""
        data, at, end = self.data, self.at, len(self.data)
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            at = at + 8 + length_at(data, at)[0] if at + 8 <= end else end + 1
            if at > end:
                self.take(end + 1)
        self.at = at

    def damaged(self, why: str) -> ModelError:
        """Return the error for a head that makes no sense."""
        return ModelError(f"{self.path} is damaged near byte {self.at}: {why}.", remedy="Get it again from its source.")


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(count):
        key = cursor.string()
        if key in metadata:
            raise cursor.damaged(f"the key {key} appears twice")
        metadata[key] = _read_value(cursor, cursor.integer("I"))
    return metadata


def _read_value(cursor: _Cursor, kind: int) -> Value:
    if kind == _ARRAY:
        return _read_array(cursor)
    if kind == _STRING:
        return cursor.string()
    if kind not in _SCALARS:
        raise cursor.damaged(f"metadata type {kind} is not known")
    return cursor.scalar(_SCALARS[kind])


def _read_array(cursor: _Cursor) -> list[bool] | list[int] | list[float] | list[str]:
    kind = cursor.integer("I")
    if kind == _STRING and not cursor.with_texts:
        cursor.skip_strings(cursor.count(8))
        return []
    if kind == _STRING:
        return cursor.strings(cursor.count(8))
    if kind not in _SCALARS:
        raise cursor.damaged(f"arrays of metadata type {kind} are not known")
    size = struct.calcsize(_SCALARS[kind])
    count = cursor.count(size)
    start = cursor.take(count * size)
    return list(struct.unpack_from(f"<{count}{_SCALARS[kind]}", cursor.data, start))


def _read_record(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Return name, shape, type number and offset in the data part."""
    name = cursor.string()
    num_dimensions = cursor.integer("I")
    if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
        raise cursor.damaged(f"the tensor {name} has {num_dimensions} dimensions")
    shape = tuple(cursor.integer("Q") for _ in range(num_dimensions))
    return name, shape[::-1], cursor.integer("I"), cursor.integer("Q")


def _place(
    records: list[tuple[str, tuple[int, ...], int, int]], cursor: _Cursor, metadata: dict[str, Value]
) -> dict[str, TensorRecord]:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise cursor.damaged(f"general.alignment={alignment!r} is not a power of two")
    start = -(-cursor.at // alignment) * alignment
    tensors: dict[str, TensorRecord] = {}
    for name, shape, kind, offset in records:
        if name in tensors:
            raise cursor.damaged(f"the tensor {name} appears twice")
        tensors[name] = _check_record(name, shape, kind, start + offset, cursor)
    return tensors


def _check_record(name: str, shape: tuple[int, ...], number: int, offset: int, cursor: _Cursor) -> TensorRecord:
    kind = _supported_type(name, number, cursor.path)
    block_len, block_bytes = GGML_QUANT_SIZES[kind]
    if min(shape) < 1 or shape[-1] % block_len:
        raise cursor.damaged(f"the tensor {name} has shape {list(shape)}, rows of which do not fit {kind.name} blocks")
    num_bytes = math.prod(shape) // block_len * block_bytes
    if offset + num_bytes > len(cursor.data):
        raise ModelError(
            f"{cursor.path} is cut short: the tensor {name} ends at byte {offset + num_bytes}, "
            f"the file has {len(cursor.data)}.",
            remedy="Get it again from its source.",
        )
    return TensorRecord(name=name, kind=kind, shape=shape, offset=offset, num_bytes=num_bytes)


def _supported_type(name: str, number: int, path: Path) -> GGMLQuantizationType:
    names = {kind.value: kind.name for kind in GGMLQuantizationType}
    if number not in {kind.value for kind in SUPPORTED_TYPES}:
        known = ", ".join(kind.name for kind in sorted(SUPPORTED_TYPES))
        raise ModelError(
            f"{path}: the tensor {name} has type {names.get(number, number)}, which is not supported.",
            remedy=f"Use a file with the types {known}.",
        )
    return GGMLQuantizationType(number)
