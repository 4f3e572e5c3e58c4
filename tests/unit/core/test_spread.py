from __future__ import annotations

from paradraft.core.spread import SpreadMeter


def test_a_value_counts_at_the_first_bound_that_is_not_below_it() -> None:
    meter = SpreadMeter((1, 2, 5))
    for value in (0.5, 1, 1.5, 2, 2.5, 5, 6, 100):
        meter.add(value)
    spread = meter.read()
    assert spread.bounds == (1, 2, 5)
    assert spread.counts == (2, 2, 2, 2)
    assert spread.total == 118.5
    assert spread.num_values == 8


def test_what_was_read_stays_as_it_was() -> None:
    meter = SpreadMeter((1,))
    before = meter.read()
    meter.add(3)
    assert (before.counts, before.total) == ((0, 0), 0.0)
