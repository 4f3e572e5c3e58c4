"""Tensors out of a memory-mapped GGUF file: stored types as they are, quantised blocks as fp32.

B blocks of a type, each of `block bytes`, hold B * `block length` values.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf.quants
import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from paradraft.models.gguf.header import TensorRecord
from paradraft.models.stored import Places, StoredTensor

_PLAIN: Mapping[GGMLQuantizationType, np.dtype[Any]] = {
    GGMLQuantizationType.F32: np.dtype("<f4"),
    GGMLQuantizationType.F16: np.dtype("<f2"),
    GGMLQuantizationType.BF16: np.dtype("<u2"),
}
_BLOCKS_AT_ONCE = 2048  # temporaries stay in the processor's cache: five times faster than whole tensors


@dataclass(frozen=True, slots=True, eq=False)
class MatrixReader:
    """Reads one matrix, or, as models.stored.Table does, a few of its rows: a row's blocks follow each other."""

    data: mmap.mmap
    record: TensorRecord

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of its dimensions."""
        return self.record.shape

    def __call__(self) -> StoredTensor:
        """Return all of it; see read_tensor."""
        return read_tensor(self.data, self.record)

    def rows(self, places: Places) -> StoredTensor:
        """Return the rows at these places in their stored format, or fp32 if they are quantised."""
        num_rows, *width = self.record.shape
        raw = _raw(self.data, self.record).reshape(num_rows, -1)[places]
        return _values(raw.reshape(-1), self.record.kind, (len(raw), *width))


def read_tensor(data: mmap.mmap, record: TensorRecord) -> StoredTensor:
    """Return a tensor in its stored format, or fp32 if it is quantised. It owns its memory."""
    return _values(_raw(data, record), record.kind, record.shape)


def _raw(data: mmap.mmap, record: TensorRecord) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8, count=record.num_bytes, offset=record.offset)


def _values(raw: npt.NDArray[np.uint8], kind: GGMLQuantizationType, shape: tuple[int, ...]) -> StoredTensor:
    plain = _PLAIN.get(kind)
    if plain is None:
        return StoredTensor(values=dequantize(raw, kind).reshape(shape))
    return StoredTensor(values=raw.copy().view(plain).reshape(shape), is_bf16=kind is GGMLQuantizationType.BF16)


def dequantize(raw: npt.NDArray[np.uint8], kind: GGMLQuantizationType) -> npt.NDArray[np.float32]:
    """Return the values of raw blocks [B * block bytes] as [B * block length] fp32."""
    block_len, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = raw.reshape(-1, block_bytes)
    decoder = getattr(gguf.quants, kind.name)
    values = np.empty((len(blocks), block_len), dtype=np.float32)
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        part = slice(start, start + _BLOCKS_AT_ONCE)
        values[part] = decoder.dequantize_blocks(blocks[part])
    return values.reshape(-1)
