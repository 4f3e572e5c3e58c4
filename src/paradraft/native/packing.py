"""Lays weights out in the order in which a pass streams them, into memory that the caller gives."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ModelError
from paradraft.native.library import check, load_library
from paradraft.native.structs import ErrorStruct, MatrixStruct

# Kinds of packed weights by name. "int8" has a scale, "int4" a scale and a least value per output and group of 32
# inputs; activations are quantised per token and group of 32.
KINDS: Mapping[str, int] = {"float32": 1, "bfloat16": 2, "int8": 4, "int4": 5}
# Kinds of sources by numpy dtype; bfloat16 comes as its bits.
SOURCE_KINDS: Mapping[str, int] = {"float32": 1, "uint16": 2, "float16": 3}
PANEL = 16  # outputs that are packed together
ALIGNMENT = 64  # bytes

Source = npt.NDArray[Any]  # [outputs, inputs] of float32, float16 or uint16 (the bits of bfloat16)
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackedMatrix:
    """A packed matrix [outputs, inputs] and its bias. Whoever uses it keeps it, and so its memory, alive."""

    kind: str  # one of KINDS
    outputs: int
    inputs: int
    data: Bytes  # [packed_bytes(kind, outputs, inputs)], aligned to ALIGNMENT
    bias: FloatArray | None = None  # [outputs]

    def struct(self) -> MatrixStruct:
        """Return what the library reads; it points into this matrix."""
        return MatrixStruct(
            data=self.data.ctypes.data,
            bias=None if self.bias is None else self.bias.ctypes.data,
            outputs=self.outputs,
            inputs=self.inputs,
            kind=KINDS[self.kind],
        )

    def row(self, row: int) -> FloatArray:
        """Return row `row` as a pass sees it, [inputs]; raises ProtocolError for one that is not there."""
        values = np.empty(self.inputs, dtype=np.float32)
        matrix, error = self.struct(), ErrorStruct()
        function = load_library().functions.paradraft_unpack_row
        check(function(ctypes.byref(matrix), row, values.ctypes.data, ctypes.byref(error)), error)
        return values


def packed_bytes(kind: str, outputs: int, inputs: int) -> int:
    """Return the bytes that a packed matrix takes, a multiple of ALIGNMENT; ModelError for what cannot be packed."""
    size = int(load_library().functions.paradraft_packed_bytes(KINDS.get(kind, 0), outputs, inputs))
    if not size:
        raise ModelError(
            f"A matrix of {outputs} x {inputs} cannot be packed as {kind!r}.",
            remedy=f"Choose one of {', '.join(KINDS)} for a matrix that has elements.",
        )
    return size


def aligned_bytes(size: int) -> Bytes:
    """Return uninitialised memory that starts at a multiple of ALIGNMENT, [size]."""
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def pack(
    kind: str, parts: Sequence[Source], *, into: Bytes | None = None, bias: FloatArray | None = None
) -> PackedMatrix:
    """Return parts [outputs of the part, inputs], joined along their outputs, as one packed matrix.

    `into` takes the packed bytes, for example a slice of a mapped file. Every part but the last must have a multiple
    of PANEL outputs; others are joined in memory first. Raises ModelError for parts that do not fit together and for
    values that are not finite.
    """
    joined = list(parts) if all(len(part) % PANEL == 0 for part in parts[:-1]) else [np.concatenate(parts)]
    outputs, inputs = sum(len(part) for part in joined), joined[0].shape[1]
    size = packed_bytes(kind, outputs, inputs)
    data = aligned_bytes(size) if into is None else into
    if data.nbytes != size or data.ctypes.data % ALIGNMENT or not data.flags.c_contiguous:
        raise ModelError(
            f"Memory of {data.nbytes} bytes was given for a packed matrix.",
            remedy=f"Give {size} bytes that start at a multiple of {ALIGNMENT}.",
        )
    first = 0
    for part in joined:
        _pack_part(kind, (outputs, inputs), first, part, data)
        first += len(part)
    return PackedMatrix(kind=kind, outputs=outputs, inputs=inputs, data=data, bias=bias)


def _pack_part(kind: str, shape: tuple[int, int], first: int, part: Source, data: Bytes) -> None:
    source = np.ascontiguousarray(part)
    source_kind = SOURCE_KINDS.get(source.dtype.name)
    if source_kind is None or source.ndim != 2 or source.shape[1] != shape[1]:
        raise ModelError(
            f"A part of shape {list(source.shape)} in {source.dtype.name} cannot be packed beside {shape[1]} inputs.",
            remedy=f"Give matrices of equal inputs in one of {', '.join(SOURCE_KINDS)}.",
        )
    error = ErrorStruct()
    code = load_library().functions.paradraft_pack(
        KINDS[kind], *shape, first, len(source), source.ctypes.data, source_kind, data.ctypes.data, ctypes.byref(error)
    )
    check(code, error)


def multiply(matrix: PackedMatrix, inputs: FloatArray, *, instruction_set: str | None = None) -> FloatArray:
    """Return inputs [T, inputs] times the matrix plus its bias, [T, outputs], computed on this thread."""
    lines = np.ascontiguousarray(inputs, dtype=np.float32)
    outputs = np.empty((len(lines), matrix.outputs), dtype=np.float32)
    library, struct, error = load_library(), matrix.struct(), ErrorStruct()
    code = library.functions.paradraft_multiply(
        ctypes.byref(struct),
        len(lines),
        lines.ctypes.data,
        outputs.ctypes.data,
        library.instruction_set(instruction_set),
        ctypes.byref(error),
    )
    check(code, error)
    return outputs
