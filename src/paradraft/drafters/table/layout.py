"""How a table lies in memory: per order a hash table of contexts, each with its best continuations and their counts.

A context of n tokens is known by a 64-bit key alone. Its top bits name a bucket, the next 32 are its mark; a wrong
context passes for a right one about once in 2**32 lookups, which costs a bad guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MAX_ORDER = 16
MAX_ENTRIES = 8  # continuations kept per context
MAX_COUNT = 2**16 - 1  # larger counts are scaled down to it
MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio; its powers weigh the tokens of a context
FACTORS = tuple(pow(STEP, power, 2**64) for power in range(1, MAX_ORDER + 1))
MARK_BITS = 32

Words = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Order:
    """The contexts of one length. C contexts in order of their buckets, E continuations, 2**b buckets."""

    length: int  # tokens of a context
    discounts: tuple[float, float, float]  # taken off counts of 1, 2 and more
    heads: npt.NDArray[np.uint32]  # [2**b + 1] where each bucket's contexts begin
    marks: npt.NDArray[np.uint32]  # [C]
    totals: npt.NDArray[np.uint16]  # [C] how often the context was seen
    begins: npt.NDArray[np.uint32]  # [C+1] into the two below
    tokens: Words  # [E] best first
    counts: npt.NDArray[np.uint16]  # [E]

    @property
    def num_bytes(self) -> int:
        """Return the size of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[np.uint32] | npt.NDArray[np.uint16]]:
        """Return the arrays by name, in the order in which they are written."""
        names = ("heads", "marks", "totals", "begins", "tokens", "counts")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What a table was counted on; free texts for cards and messages."""

    target: str = ""
    tokenizer_sha256: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Table:
    """Continuations counted on finished texts."""

    vocab_size: int
    num_tokens: int  # counted continuations
    orders: tuple[Order, ...]  # by length
    origin: Origin = Origin()

    @property
    def num_bytes(self) -> int:
        """Return the size of all arrays."""
        return sum(order.num_bytes for order in self.orders)


def key_of(context: Sequence[int], length: int) -> int:
    """Return the key of the first `length` tokens of a context, the newest token first."""
    return sum([token * factor for token, factor in zip(context[:length], FACTORS, strict=False)]) & MASK


def bucket_bits(num_contexts: int) -> int:
    """Return how many bits of a key name its bucket: about one context to a bucket."""
    return max(min((max(num_contexts, 1) - 1).bit_length(), 31), 1)
