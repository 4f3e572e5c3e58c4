"""One row of a drafting network: the cached beginning of its context, and taps that wait to be cached.

Legend: n entries, m tapped layers, d hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import CapacityError
from paradraft.kv.lease import Lease

_NO_PATH = ints([])


@dataclass(slots=True, eq=False)
class NeuralRow:
    """The context of one row, entry by entry; see nets/serving/rounds.py for what an entry is.

    Usually entry j is that of position j. Where the target took tokens from its own cache that this one lacks, or pages
    ran short, positions are missing: the entries behind them move up and keep their positions, and the row's pages are
    from there on published under names that no text has, so that no other row takes them for something else.
    """

    lease: Lease
    shift: int
    num_missing: int = 0
    _wanted: int = 0  # the position whose tap comes next
    _gap: int | None = None  # the entry from which positions are no longer those of the text
    _held: list[tuple[int, FloatArray]] = field(default_factory=list)  # first position, taps [n, m * d]

    def __post_init__(self) -> None:
        """Go on behind the pages that were found."""
        self._wanted = self.lease.committed

    @property
    def num_held(self) -> int:
        """Return how many taps wait."""
        return sum(len(taps) for _, taps in self._held)

    def follow(self, position: int, taps: FloatArray) -> None:
        """Take in the taps [n, m * d] of positions `position` and up; those known already are left out."""
        known = max(self._wanted - position, 0)
        if known >= len(taps):
            return
        if position > self._wanted:
            self._lose(position - self._wanted)
        self._held.append((position + known, taps[known:]))
        self._wanted = position + len(taps)

    def take(self, stop: int) -> tuple[IntArray, FloatArray] | None:
        """Return positions [n] and taps of what waits below `stop`, and let go of them; None if nothing does."""
        taken = [(first, taps[: max(stop - first, 0)]) for first, taps in self._held if first < stop]
        if not taken:
            return None
        rest = [(max(first, stop), taps[max(stop - first, 0) :]) for first, taps in self._held]
        self._held = [(first, taps) for first, taps in rest if len(taps)]
        positions = np.concatenate([np.arange(first, first + len(taps)) for first, taps in taken])
        return ints(positions), np.concatenate([taps for _, taps in taken])

    def tap_at(self, position: int) -> FloatArray | None:
        """Return the waiting tap [m * d] of a position, None if it is not there."""
        for first, taps in reversed(self._held):
            if first <= position < first + len(taps):
                tap: FloatArray = taps[position - first]
                return tap
        return None

    def stage(self, count: int) -> bool:
        """Set slots aside behind the context; False if pages are short."""
        try:
            self.lease.reserve(self.lease.committed + count)
        except CapacityError:
            return False
        self.lease.stage(count)
        return True

    def keep(self, count: int, history: IntArray) -> None:
        """Add the first `count` staged slots to the context and drop the others."""
        self.lease.commit(count, _NO_PATH, self._names(history, self.lease.committed + count))

    def give_up(self, count: int) -> None:
        """Go on without `count` entries that were taken and not written."""
        self._lose(count, held=0)

    def _lose(self, count: int, held: int | None = None) -> None:
        self.num_missing += count
        gap = self.lease.committed + (self.num_held if held is None else held)
        self._gap = gap if self._gap is None else min(self._gap, gap)

    def _names(self, history: IntArray, count: int) -> IntArray:
        """Return what the first `count` entries are published under: their tokens, or numbers below 0."""
        if self._gap is None or count <= self._gap:
            return history[self.shift : self.shift + count]
        nameless = np.full(count - self._gap, -1 - self.lease.serial, dtype=np.int32)
        return np.concatenate([history[self.shift : self.shift + self._gap], nameless])


def slots_between(lease: Lease, first: int, stop: int, page_size: int) -> IntArray:
    """Return the cache slots of entries first .. stop - 1."""
    index = np.arange(first, stop, dtype=np.int32)
    return ints(lease.page_table[index // page_size] * page_size + index % page_size)
