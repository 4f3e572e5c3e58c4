"""How a measured quantity is spread: counts between fixed bounds, which add up over time and over machines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Counts of a quantity. counts[i] of its values lie at or below bounds[i] and above the bound before."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds: the last is of what lies above all of them
    total: float  # sum of the values

    @property
    def num_values(self) -> int:
        """Return how many values were counted."""
        return sum(self.counts)


class SpreadMeter:
    """Counts values as they come; `read` freezes the counts."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count between bounds, which rise."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value that came so many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def read(self) -> Spread:
        """Return the counts so far."""
        return Spread(bounds=self._bounds, counts=tuple(self._counts), total=self.total)
