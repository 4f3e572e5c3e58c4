"""Array types shared by the records, and helpers for ragged arrays (`starts` has one more entry)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
MaskArray = npt.NDArray[np.uint32]
FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def ints(values: Sequence[int] | npt.ArrayLike) -> IntArray:
    """Return values as a one-dimensional int32 array."""
    array = np.asarray(values, dtype=np.int32)
    return array if array.ndim == 1 else array.reshape(-1)


def starts_of(counts: Sequence[int] | npt.ArrayLike) -> IntArray:
    """Turn counts [R] into ragged starts [R+1]: part r is `array[starts[r]:starts[r+1]]`."""
    # A batch has few rows, and plain integers add up faster than an array call starts.
    sizes = counts if isinstance(counts, list) else ints(counts).tolist()
    return np.array([0, *accumulate(sizes)], dtype=np.int32)


def join(parts: Sequence[npt.ArrayLike]) -> IntArray:
    """Concatenate parts as int32; no parts give an empty array."""
    return ints(np.concatenate([ints(part) for part in parts])) if len(parts) else ints([])
