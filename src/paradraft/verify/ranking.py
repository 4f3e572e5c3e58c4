"""The largest values of a long vector, found without sorting it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_GROUP = 32


def largest(values: npt.NDArray[np.floating[Any]], count: int) -> npt.NDArray[np.intp]:
    """Return the indices of the `count` largest values [V], by (-value, index); values hold no NaN."""
    if count >= len(values):
        return np.argsort(-values, kind="stable")
    candidates = np.flatnonzero(values >= _lower_bound(values, count))
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order[:count]]


def _lower_bound(values: npt.NDArray[np.floating[Any]], count: int) -> np.floating[Any]:
    """Return a value that at least `count` entries reach, and few more than that do.

    The maxima of disjoint groups are entries themselves, so their count-th largest is such a bound; one pass over
    the vector finds them. With too few groups the count-th largest entry itself is selected.
    """
    num_groups = len(values) // _GROUP
    if num_groups >= 2 * count:
        values = values[: num_groups * _GROUP].reshape(_GROUP, num_groups).max(axis=0)
    rank = len(values) - count
    bound: np.floating[Any] = np.partition(values, rank)[rank]
    return bound
