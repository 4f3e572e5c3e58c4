from __future__ import annotations

import pytest

from paradraft.scheduling.costs import DRAFT_COST, MAX_TOKENS, NODE_COST, DraftCosts, PassCosts


def measured(passes: dict[int, float], times: int = 20) -> PassCosts:
    costs = PassCosts()
    for _ in range(times):
        for num_tokens, seconds in passes.items():
            costs.observe(num_tokens, seconds)
    return costs


def test_unmeasured_costs_are_unknown_and_a_node_has_its_usual_price() -> None:
    costs = PassCosts()
    assert costs.seconds(1) is None
    assert (costs.node_cost(1), costs.draft_cost(1)) == (NODE_COST, DRAFT_COST)


def test_passes_on_a_line_are_priced_exactly() -> None:
    costs = measured({1: 0.010, 3: 0.014, 9: 0.026})
    assert costs.draft_cost(1) == pytest.approx(0.0)
    assert costs.seconds(5) == pytest.approx(0.018)
    assert costs.seconds(20) == pytest.approx(0.048)
    assert costs.node_cost(1) == pytest.approx(0.2)
    assert costs.node_cost(9) == pytest.approx(0.002 / 0.026)


def test_passes_of_one_size_leave_a_node_at_its_usual_price() -> None:
    costs = measured({1: 0.010})
    assert costs.node_cost(1) == NODE_COST
    assert costs.seconds(1) == pytest.approx(0.010)
    assert costs.seconds(5) == pytest.approx(0.010 * (1 + DRAFT_COST + 4 * NODE_COST))


def test_one_token_alone_is_priced_apart_and_the_first_node_pays_the_difference() -> None:
    costs = measured({1: 0.010, 2: 0.0125, 8: 0.0155})
    assert costs.node_cost(1) == pytest.approx(0.05)
    assert costs.draft_cost(1) == pytest.approx(0.2)
    assert costs.draft_cost(4) == 0.0
    assert costs.seconds(1) == pytest.approx(0.010)


def test_noise_cannot_make_a_node_earn_or_a_pass_free() -> None:
    costs = measured({1: 0.010, 2: 0.010, 8: 0.009})
    assert (costs.node_cost(1), costs.draft_cost(1)) == (0.0, 0.0)
    assert costs.seconds(40) == pytest.approx(0.0095, rel=1e-2)


def test_one_stall_moves_the_price_little() -> None:
    costs = measured({1: 0.010})
    costs.observe(1, 5.0)
    seconds = costs.seconds(1)
    assert seconds is not None
    assert seconds <= 0.0107


def test_a_lasting_change_is_learned() -> None:
    costs = measured({1: 0.010, 2: 0.012, 8: 0.014}, times=30)
    for _ in range(300):
        costs.observe(1, 0.018)
        costs.observe(2, 0.019)
        costs.observe(8, 0.020)
    assert costs.seconds(1) == pytest.approx(0.018, rel=0.03)
    assert costs.seconds(8) == pytest.approx(0.020, rel=0.03)


def test_prefill_passes_do_not_count() -> None:
    costs = measured({MAX_TOKENS + 1: 1.0})
    assert costs.seconds(1) is None


def test_the_slow_first_pass_of_a_size_does_not_count() -> None:
    costs = PassCosts()
    costs.observe(8, 2.0)
    assert costs.seconds(8) is None
    costs.observe(8, 0.012)
    assert costs.seconds(8) == pytest.approx(0.012)


def test_drafting_costs_what_it_takes_beyond_reading_along() -> None:
    drafting = DraftCosts()
    assert drafting.seconds(4) == 0.0
    for depth in [0, 2, 4, 6] * 20:
        drafting.observe(depth, 0.001 + 0.002 * depth)
    assert drafting.seconds(4) == pytest.approx(0.008)
    assert drafting.seconds(8) == pytest.approx(0.016)
    assert drafting.seconds(0) == 0.0


def test_one_pass_drafting_costs_the_same_at_every_depth() -> None:
    drafting = DraftCosts()
    for depth in [0, 2, 4, 6] * 20:
        drafting.observe(depth, 0.004 if depth else 0.001)
    assert drafting.seconds(2) == pytest.approx(drafting.seconds(7)) == pytest.approx(0.003)


def test_a_slow_first_call_and_a_stall_do_not_make_drafting_dear() -> None:
    drafting = DraftCosts()
    drafting.observe(4, 3.0)
    assert drafting.seconds(4) == 0.0
    for _ in range(30):
        drafting.observe(4, 0.002)
    drafting.observe(4, 3.0)
    assert drafting.seconds(4) < 0.0025
