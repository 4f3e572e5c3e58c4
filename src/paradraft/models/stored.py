"""Weights as files hold them, without torch: numpy arrays, and the bits of bf16, which numpy does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import FloatArray, IntArray

Values = npt.NDArray[Any]  # whatever number format a file holds
Places = IntArray | npt.NDArray[np.int64] | slice  # rows of a matrix
EVERY = slice(None)
_CHUNK = 1 << 20  # values looked at together, so that temporaries stay in the processor's cache
_EXPONENT = np.uint16(0x7F80)  # of bf16; all ones: an infinity or no number


@runtime_checkable
class Table(Protocol):
    """A matrix that may lie in a file: a few of its rows can be read without the others."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of its dimensions."""
        ...

    def rows(self, places: Places) -> StoredTensor:
        """Read the rows at these places, EVERY for all."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StoredTensor:
    """A tensor in the number format it is stored in."""

    values: Values
    is_bf16: bool = False  # then values are the bits, uint16

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of its dimensions."""
        return tuple(self.values.shape)

    @property
    def is_floating_point(self) -> bool:
        """Whether it holds fractions."""
        return self.is_bf16 or self.values.dtype.kind == "f"

    @property
    def number_format(self) -> str:
        """Return what torch, and numpy but for the first, calls its number format: bfloat16, float32, int64, ..."""
        return "bfloat16" if self.is_bf16 else str(self.values.dtype.name)

    def in_format(self, name: str) -> StoredTensor:
        """Return the values in bfloat16, float16 or float32, to the nearest and from ties to even.

        What is too large becomes infinite.
        """
        if name == self.number_format:
            return self
        if name == "bfloat16":
            return StoredTensor(values=narrow(self.floats()), is_bf16=True)
        with np.errstate(over="ignore"):
            return StoredTensor(values=self.floats().astype(name))

    def rows(self, places: Places) -> StoredTensor:
        """Return the lines of its first dimension at these places."""
        return StoredTensor(values=self.values[places], is_bf16=self.is_bf16)

    def shaped(self, *shape: int) -> StoredTensor:
        """Return the same values in another shape."""
        return StoredTensor(values=self.values.reshape(shape), is_bf16=self.is_bf16)

    def floats(self) -> FloatArray:
        """Return the values in fp32, exact for bf16 and fp16; fp32 values are not copied."""
        if self.is_bf16:
            return widen(self.values)
        with np.errstate(
            over="ignore"
        ):  # what float64 alone can hold becomes infinite, and is refused where it is used
            return self.values.astype(np.float32, copy=False)

    def find_not_finite(self) -> tuple[int, float] | None:
        """Return place and value of the first element that is infinite or no number, None if there is none."""
        flat = self.values.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            wrong = (part & _EXPONENT) == _EXPONENT if self.is_bf16 else ~np.isfinite(part)
            if wrong.any():
                at = int(wrong.argmax())
                value = widen(part[at : at + 1])[0] if self.is_bf16 else part[at]
                return start + at, float(value)
        return None


def widen(bits: npt.NDArray[np.uint16]) -> FloatArray:
    """Return bf16 numbers, given as their bits, in fp32."""
    wide = bits.astype(np.uint32)
    wide <<= np.uint32(16)
    values: FloatArray = wide.view(np.float32)
    return values


def narrow(values: FloatArray) -> npt.NDArray[np.uint16]:
    """Return the bits of fp32 values rounded to bf16, ties to even; what is too large becomes infinite."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    return (rounded >> np.uint32(16)).astype(np.uint16)
