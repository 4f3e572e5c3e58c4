"""Ranking a long vector without sorting it."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.verify.ranking import Ranking

LENGTHS = (1, 2, 31, 32, 33, 1000, 4096, 5001)


def slow_order(values: np.ndarray) -> list[int]:
    return sorted(range(len(values)), key=lambda index: (-values[index], index))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("num_levels", [1, 3, 10**9])
def test_largest_ranks_by_value_then_index(length: int, num_levels: int) -> None:
    rng = np.random.default_rng(length)
    values = rng.integers(num_levels, size=length).astype(np.float32)
    for count in {1, 2, 5, 100, length - 1, length, length + 3} - {0}:
        assert Ranking(values).largest(count).tolist() == slow_order(values)[:count]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("num_levels", [1, 3, 10**9])
def test_covering_is_the_shortest_prefix_that_reaches_the_sum(length: int, num_levels: int) -> None:
    rng = np.random.default_rng(length)
    values = (rng.integers(num_levels, size=length) / num_levels).astype(np.float32)
    weights = np.exp(4 * values)
    order = slow_order(values)
    for share in (1e-9, 0.1, 0.5, 0.95, 0.9999):
        needed = share * float(weights.sum(dtype=np.float64))
        covering = Ranking(values).covering(weights, needed).tolist()
        prefix = order[: len(covering)]
        assert covering == sorted(prefix)
        assert weights[prefix].sum(dtype=np.float64) >= needed * (1 - 1e-12)
        assert weights[prefix[:-1]].sum(dtype=np.float64) < needed


@pytest.mark.parametrize("length", [2, 33, 200])
def test_covering_ends_at_every_length_of_prefix(length: int) -> None:
    values = np.random.default_rng(0).permutation(length).astype(np.float32)
    weights = (1 + values / length).astype(np.float32)
    sums = np.cumsum(np.sort(weights)[::-1], dtype=np.float64)
    for size in range(1, length + 1):
        for needed in (sums[size - 1] - 0.4, sums[size - 1] - 1e-4):
            assert len(Ranking(values).covering(weights, float(needed))) == size


def test_covering_more_than_there_is_takes_all() -> None:
    values = np.arange(100, dtype=np.float32)
    assert Ranking(values).covering(values, 1e9).tolist() == list(range(100))


@pytest.mark.parametrize("place", [0, 63, 64, 69])
def test_peak_is_the_largest_value_or_nan(place: int) -> None:
    values = np.zeros(70, dtype=np.float32)
    values[place] = 2.0
    assert Ranking(values).peak == 2.0
    values[place] = np.nan
    assert np.isnan(Ranking(values).peak)
