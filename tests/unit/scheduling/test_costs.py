from __future__ import annotations

import pytest

from paradraft.scheduling.costs import MAX_TOKENS, PassCosts


def test_unmeasured_costs_are_unknown() -> None:
    assert PassCosts().seconds(1) is None


def test_between_measurements_costs_are_interpolated_and_outside_held() -> None:
    costs = PassCosts()
    costs.observe(1, 0.010)
    costs.observe(5, 0.018)
    assert costs.seconds(3) == pytest.approx(0.014)
    assert costs.seconds(1) == pytest.approx(0.010)
    assert costs.seconds(9) == pytest.approx(0.018)


def test_one_stall_moves_the_price_little() -> None:
    costs = PassCosts()
    costs.observe(1, 0.010)
    costs.observe(1, 5.0)
    seconds = costs.seconds(1)
    assert seconds is not None
    assert seconds <= 0.0111


def test_a_lasting_change_is_learned() -> None:
    costs = PassCosts()
    costs.observe(1, 0.010)
    for _ in range(80):
        costs.observe(1, 0.020)
    assert costs.seconds(1) == pytest.approx(0.020, rel=0.01)


def test_prefill_passes_do_not_count() -> None:
    costs = PassCosts()
    costs.observe(MAX_TOKENS + 1, 1.0)
    assert costs.seconds(1) is None


def test_a_slow_first_pass_of_a_size_is_forgotten_with_the_next() -> None:
    costs = PassCosts()
    costs.observe(8, 2.0)
    costs.observe(8, 0.012)
    assert costs.seconds(8) == pytest.approx(0.012)
