from __future__ import annotations

import random

import pytest

from paradraft.scheduling.costs import DraftCosts, PassCosts
from paradraft.scheduling.length import Others, PricedLength
from paradraft.scheduling.switch import LONGEST_REST, REST, BreakEven


def costs_of(per_token: float) -> PassCosts:
    costs = PassCosts()
    for tokens in [*range(1, 33)] * 3:
        costs.observe(tokens, 0.010 * (1 + per_token * (tokens - 1)))
    return costs


def drafting_of(seconds: float) -> DraftCosts:
    drafting = DraftCosts()
    for depth in [0, 4] * 3:
        drafting.observe(depth, 0.001 + (seconds if depth else 0.0))
    return drafting


def switch(*, per_token: float = 0.05, drafting: float = 0.0, gamma: int = 4) -> BreakEven:
    costs = costs_of(per_token)
    return BreakEven(PricedLength(gamma=gamma, nodes=gamma, costs=costs), costs=costs, drafting=drafting_of(drafting))


def play(policy: BreakEven, rounds: int, chance: float, row: int = 0, others: Others | None = None) -> list[int]:
    """Return the depths of some rounds in which each level stands with this chance."""
    rng, depths = random.Random(row), list[int]()
    for _ in range(rounds):
        depth = policy.choose(row, None, 100, others or Others()).depth
        policy.observe(row, depth, next((level for level in range(depth) if rng.random() > chance), depth), depth)
        depths.append(depth)
    return depths


def test_drafts_that_pay_are_never_interrupted() -> None:
    assert set(play(switch(), 200, 0.6)) == {4}


def test_drafts_that_bring_nothing_are_made_ever_more_seldom() -> None:
    depths = play(switch(), 1000, 0.0)
    assert sum(depth > 0 for depth in depths[:50]) < 20
    assert sum(depth > 0 for depth in depths[-LONGEST_REST:]) <= 4
    assert sum(depth > 0 for depth in depths[-2 * LONGEST_REST - 8 :]) >= 1


def test_a_row_whose_drafts_have_become_good_gets_them_back() -> None:
    policy = switch()
    assert play(policy, 60, 0.0)[-1] == 0
    assert set(play(policy, 8 * REST, 1.0)[-REST:]) == {4}


def test_the_drafters_own_time_counts_even_where_it_drafted_nothing() -> None:
    """A network that costs half a pass and then proposes no node is switched off, too."""
    policy = switch(drafting=0.005)
    depths = []
    for _ in range(40):
        depths.append(policy.choose(0, None, 100).depth)
        policy.observe(0, 0, 0, 0)
    assert depths.count(4) < 10


def test_acceptance_is_the_wrong_signal_and_the_price_of_a_pass_the_right_one() -> None:
    """The same acceptance pays alone and loses in a full batch, where every node delays all rows."""
    assert set(play(switch(per_token=0.05), 200, 0.6)) == {4}
    assert play(switch(per_token=0.05), 200, 0.6, others=Others(rows=15, tokens=15)).count(0) > 150


def test_where_drafts_lose_everywhere_a_new_row_loses_little() -> None:
    policy = switch(per_token=0.2)
    for row in range(8):
        play(policy, 40, 0.0, row=row)
        policy.forget(row)
    assert sum(depth > 0 for depth in play(policy, REST, 0.0, row=9)) <= 1


def test_rows_are_judged_by_their_own_drafts() -> None:
    policy = switch(per_token=0.1)
    for _ in range(100):
        play(policy, 1, 0.0, row=0)
        good = play(policy, 1, 1.0, row=1)
    assert good == [4]
    assert play(policy, 3, 0.0, row=0)[0] == 0


def test_a_forgotten_row_begins_anew_and_prices_are_the_inner_ones() -> None:
    policy = switch(per_token=0.3)
    play(policy, 30, 0.0)
    play(policy, 30, 1.0, row=1)
    policy.forget(0)
    assert policy.choose(0, None, 100).depth == 4
    assert policy.prices(1) == pytest.approx((0.3, 0.0))


def test_plain_rounds_and_the_requests_own_gamma_are_left_alone() -> None:
    policy = switch()
    assert policy.choose(0, 0, 100).depth == 0
    policy.observe(0, 0, 0)
    assert policy.choose(0, 2, 100).depth == 2
