"""The largest values of a long vector, found without sorting it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.intp]

_GROUP = 32


class Ranking:
    """Ranks a vector [V] by (-value, index) as far down as asked. NaN anywhere makes the peak NaN."""

    def __init__(self, values: Values) -> None:
        """Take the maxima of disjoint groups: entries themselves, so that few of them bound many."""
        whole = len(values) - len(values) % _GROUP
        maxima = values[:whole].reshape(_GROUP, -1).max(axis=0)
        self.values = values
        self._maxima = maxima if whole == len(values) else np.concatenate([maxima, values[whole:]])
        self.peak = self._maxima.max()

    def largest(self, count: int) -> Indices:
        """Return the indices of the `count` largest values, in ranking order."""
        values = self.values
        if count >= len(values):
            return np.argsort(-values, kind="stable")
        candidates = np.flatnonzero(values >= self._lower_bound(count))
        order = np.argsort(-values[candidates], kind="stable")
        return candidates[order[:count]]

    def covering(self, weights: Values, needed: float) -> Indices:
        """Return the shortest prefix of the ranking whose weights [V] reach the sum `needed`, by ascending index.

        Halves the pool that holds the end of the prefix until its last value is known: nothing is sorted. Equal
        values have equal weights.
        """
        pool, masses = self.values, weights
        while len(pool):
            pivot = np.partition(pool, len(pool) // 2)[len(pool) // 2]
            is_above, is_equal = pool > pivot, pool == pivot
            above = float(masses[is_above].sum(dtype=np.float64))
            ties = np.cumsum(masses[is_equal], dtype=np.float64)
            if above >= needed:
                pool, masses = pool[is_above], masses[is_above]
            elif above + ties[-1] >= needed:
                num_ties = int(np.searchsorted(ties, needed - above)) + 1
                tied = np.flatnonzero(self.values == pivot)[:num_ties]
                return np.sort(np.concatenate([np.flatnonzero(self.values > pivot), tied]))
            else:
                needed -= above + float(ties[-1])
                is_below = pool < pivot
                pool, masses = pool[is_below], masses[is_below]
        return np.arange(len(self.values))

    def _lower_bound(self, count: int) -> np.floating[Any]:
        """Return a value that at least `count` entries reach, and few more than that do."""
        pool = self._maxima if len(self._maxima) >= 2 * count else self.values
        rank = len(pool) - count
        bound: np.floating[Any] = np.partition(pool, rank)[rank]
        return bound
