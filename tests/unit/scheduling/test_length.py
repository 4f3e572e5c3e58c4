from __future__ import annotations

import random
from itertools import pairwise

import pytest

from paradraft.scheduling.costs import DraftCosts, PassCosts
from paradraft.scheduling.length import (
    COOLDOWN,
    PROBE_EVERY,
    AdaptiveLength,
    FixedLength,
    Others,
    PricedLength,
)


def costs_of(per_token: float) -> PassCosts:
    costs = PassCosts()
    for tokens in [*range(1, 17)] * 3:
        costs.observe(tokens, 0.010 * (1 + per_token * (tokens - 1)))
    return costs


def test_fixed_is_cut_by_the_room_left() -> None:
    policy = FixedLength(gamma=5, nodes=5)
    assert policy.choose(0, None, 10).depth == 5
    assert policy.choose(0, None, 2).depth == 2
    assert policy.choose(0, None, 0).depth == 0


def test_a_request_overrides_gamma_both_ways() -> None:
    policy = FixedLength(gamma=5, nodes=5)
    assert policy.choose(0, 0, 10).depth == 0
    assert policy.choose(0, 2, 10).depth == 2
    assert policy.choose(0, 8, 10).depth == 8


def test_flat_passes_and_good_drafts_give_full_depth() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.0))
    for _ in range(10):
        policy.observe(0, 8, 8)
    assert policy.choose(0, None, 20).depth == 8


def test_useless_drafts_are_switched_off_and_probed_again() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.05))
    for _ in range(20):
        policy.observe(0, 8, 0)
    depths = [policy.choose(0, None, 20).depth for _ in range(2 * PROBE_EVERY)]
    assert depths.count(0) == 2 * PROBE_EVERY - 2
    assert depths.count(8) == 2


def test_a_row_recovers_when_drafts_are_good_again() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.05))
    for _ in range(20):
        policy.observe(0, 8, 0)
    for _ in range(3):
        policy.observe(0, 8, 8)
    assert policy.choose(0, None, 20).depth > 0


def test_with_equal_acceptance_a_steeper_pass_means_shorter_drafts() -> None:
    flat = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.02))
    steep = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.35))
    for policy in (flat, steep):
        for _ in range(10):
            policy.observe(0, 4, 3)
    assert flat.choose(0, None, 20).depth > steep.choose(0, None, 20).depth


def test_rows_have_records_of_their_own() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.05))
    for _ in range(20):
        policy.observe(0, 8, 0)
    assert policy.choose(1, None, 20).depth > 0
    policy.forget(0)
    assert policy.choose(0, None, 20).depth > 0


def roofline(sizes: range) -> PassCosts:
    """Passes cost the same up to 16 tokens and grow in proportion behind; those of these sizes were seen."""
    costs = PassCosts()
    for tokens in [*sizes] * 3:
        costs.observe(tokens, 0.010 * max(1.0, tokens / 16))
    return costs


def test_with_flat_acceptance_drafts_are_long_alone_and_off_in_a_full_batch() -> None:
    alone = AdaptiveLength(gamma=8, nodes=8, costs=roofline(range(1, 10)))
    full = AdaptiveLength(gamma=8, nodes=8, costs=roofline(range(32, 60)))
    for policy in (alone, full):
        for _ in range(30):
            policy.observe(0, 8, 7)
            policy.observe(0, 8, 8)
    assert alone.choose(0, None, 20).depth >= 3
    assert full.choose(0, None, 20, Others(rows=31, tokens=31)).depth == 0


def test_no_probe_disturbs_a_pass_in_which_even_perfect_drafts_would_not_pay() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=roofline(range(32, 60)))
    full = Others(rows=31, tokens=31)
    assert {policy.choose(0, None, 20, full).depth for _ in range(3 * PROBE_EVERY)} == {0}


def test_a_wide_tree_is_weighed_by_all_its_nodes() -> None:
    chain = AdaptiveLength(gamma=4, nodes=4, costs=costs_of(0.1))
    tree = AdaptiveLength(gamma=4, nodes=32, costs=costs_of(0.1))
    for policy in (chain, tree):
        for _ in range(4):
            for accepted in (4, 2, 1, 3, 0, 4, 1):
                policy.observe(0, 4, accepted)
    assert chain.choose(0, None, 20).depth > tree.choose(0, None, 20).depth


def test_a_priced_policy_passes_on_what_a_node_was_measured_to_cost() -> None:
    policy = PricedLength(gamma=4, nodes=4, costs=costs_of(0.02))
    assert policy.choose(0, None, 10).depth == 4
    assert policy.prices(1) == pytest.approx((0.02, 0.0))
    assert FixedLength(gamma=4, nodes=4).prices(1) == (0.05, 0.0)


def drafting_of(per_level: float) -> DraftCosts:
    drafting = DraftCosts()
    for depth in [0, *range(1, 9)] * 3:
        drafting.observe(depth, 0.001 + per_level * depth)
    return drafting


def test_depth_follows_acceptance_by_position_and_not_its_mean() -> None:
    """The first two levels always stand and the third never does: the mean of 2/3 would go on for ever."""
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.03))
    for _ in range(60):
        policy.observe(0, 8, 2)
    assert policy.choose(0, None, 20).depth == 2


def test_a_new_row_begins_with_what_others_have_shown() -> None:
    good, bad = (AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.05)) for _ in range(2))
    for _ in range(60):
        good.observe(0, 8, 8)
        bad.observe(0, 8, 0)
    assert good.choose(1, None, 20).depth > bad.choose(1, None, 20).depth


def test_the_time_of_drafting_counts_and_less_for_each_of_many_rows() -> None:
    def depth(per_level: float, others: Others) -> int:
        policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.02), drafting=drafting_of(per_level))
        for _ in range(20):
            for accepted in (8, 3, 1, 5):
                policy.observe(0, 8, accepted)
        return policy.choose(0, None, 20, others).depth

    alone = Others()
    assert depth(0.0, alone) > depth(0.004, alone) > depth(0.020, alone) == 0
    assert depth(0.004, Others(rows=7, tokens=7)) >= depth(0.004, alone)


def test_a_load_that_swings_around_a_threshold_does_not_make_gamma_swing() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.25))
    for _ in range(20):
        policy.observe(0, 8, 7)
    light, heavy = Others(rows=3, tokens=3), Others(rows=31, tokens=31)
    depths = [policy.choose(0, None, 20, heavy if round_ % 2 else light).depth for round_ in range(40)]
    changes = [at for at in range(1, 40) if depths[at] != depths[at - 1]]
    assert all(later - earlier >= COOLDOWN for earlier, later in pairwise(changes))
    assert len(set(depths)) > 1


def test_a_depth_that_is_hardly_better_is_not_changed_to() -> None:
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.08))
    rng, depths = random.Random(0), list[int]()
    for _ in range(300):
        depths.append(policy.choose(0, None, 20).depth)
        accepted = next((level for level in range(depths[-1]) if rng.random() > 0.7), depths[-1])
        policy.observe(0, depths[-1], accepted)
    assert sum(a != b for a, b in pairwise(depths)) < 30


def test_with_flat_acceptance_the_policy_settles_within_some_rounds_and_recovers_after_a_load_step() -> None:
    """Acceptance stays at 0.88 throughout; only the price of a pass tells when drafting pays."""
    policy = AdaptiveLength(gamma=8, nodes=8, costs=costs_of(0.25))
    rng = random.Random(1)

    def last_depth(others: Others) -> int:
        for _ in range(24):
            depth = policy.choose(0, None, 50, others).depth
            policy.observe(0, depth, next((level for level in range(depth) if rng.random() > 0.88), depth))
        return depth

    assert last_depth(Others()) >= 2
    assert last_depth(Others(rows=31, tokens=31)) == 0
    assert last_depth(Others()) >= 2
