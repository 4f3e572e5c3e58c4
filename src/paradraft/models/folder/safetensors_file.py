"""Tensors out of a memory-mapped safetensors file.

The safetensors library checks the file; its reader for numpy refuses bf16, so the values are found by the table at
the head of the file: its length in 8 bytes, then JSON (github.com/huggingface/safetensors, README, Format).
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from paradraft.core.errors import ModelError
from paradraft.models.stored import StoredTensor
from paradraft.models.weight_map import Reader

_LENGTH = struct.Struct("<Q")
_BF16 = "BF16"
_DTYPES: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    _BF16: np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


def open_safetensors(path: Path) -> dict[str, Reader]:
    """Return a reader for each tensor; raise ModelError if the file is cut short or holds what is not supported."""
    try:
        with safe_open(path, framework="np") as handle:
            names = set(handle.keys())
        data, table, base = _map(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{path} is not a whole safetensors file ({error}).",
            remedy="It is cut short or another kind of file; get it again from its source.",
        ) from error
    for name in sorted(names):
        if table[name]["dtype"] not in _DTYPES:
            raise ModelError(
                f"{path}: the tensor {name} has type {table[name]['dtype']}, which is not supported.",
                remedy="Use the model in bf16, fp16 or fp32, or as a GGUF file.",
            )
    return {name: partial(_read, data, table[name], base) for name in names}


def _map(path: Path) -> tuple[mmap.mmap, dict[str, Any], int]:
    """Return the bytes of a file, its table of tensors, and where the values begin.

    The map is private and may be written to: torch takes arrays that share its memory for writable ones only.
    """
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    base = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return data, json.loads(data[_LENGTH.size : base]), base


def _read(data: mmap.mmap, entry: dict[str, Any], base: int) -> StoredTensor:
    dtype = _DTYPES[entry["dtype"]]
    shape, (first, stop) = entry["shape"], entry["data_offsets"]
    values = np.frombuffer(data, dtype=dtype, count=(stop - first) // dtype.itemsize, offset=base + first)
    aligned = values if values.flags.aligned else values.copy()
    return StoredTensor(values=aligned.reshape(shape), is_bf16=entry["dtype"] == _BF16)
