"""Pearson's test with a stated error rate: a right sampler fails it once in ten thousand runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ERROR_RATE = 1e-4
_NORMAL_QUANTILE = 3.719  # of 1 - ERROR_RATE


def fits(counts: npt.ArrayLike, probabilities: npt.ArrayLike) -> bool:
    """Whether counts [n] may come from these probabilities [n]; cells that expect under 5 are thrown together."""
    observed = np.asarray(counts, dtype=np.float64)
    expected = np.asarray(probabilities, dtype=np.float64) * observed.sum()
    if observed[expected == 0].any():
        return False
    is_rare = expected < 5
    observed = np.append(observed[~is_rare], observed[is_rare].sum())
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return statistic <= _quantile(len(expected) - 1)


def _quantile(degrees: int) -> float:
    """Return the chi-square quantile of 1 - ERROR_RATE (Wilson and Hilferty's approximation)."""
    if degrees == 0:
        return 1e-9
    spread = 2 / (9 * degrees)
    return float(degrees * (1 - spread + _NORMAL_QUANTILE * np.sqrt(spread)) ** 3)
