from __future__ import annotations

import math
import random

import pytest

from paradraft.drafters.blend import FARTHEST, Pool, lifted
from paradraft.drafters.priors import DEPTHS, SourceWeights, Weights, prior_of

PAIR = ("suffix+shared", "table")


def plain(*sources: SourceWeights) -> Pool:
    """Return a pool with these weights, where depth does not count."""
    pool = Pool([f"source {number}" for number in range(len(sources))])
    pool.weights = Weights(list(sources), [0.0] * DEPTHS)
    return pool


def test_the_formula_by_hand() -> None:
    pool = plain(SourceWeights(0.9, 0.3, 0.4, -0.5, 0.8, 0.2), SourceWeights(0.7, 0.1, 0.6, -0.6, 0.5, 0.3))
    blend = pool.blend([{1: 0.5, 2: 0.2}, {1: 0.3}], 0)
    rests = [math.log(0.3), math.log(0.7)]
    scores = {
        1: 0.9 * math.log(0.5) + 0.3 + 0.7 * math.log(0.3) + 0.1,
        2: 0.9 * math.log(0.2) + 0.3 + 0.6 * rests[1] - 0.6,
    }
    none = 0.8 * rests[0] + 0.5 * rests[1]
    total = math.exp(none) + sum(math.exp(score) for score in scores.values())
    assert blend.shares == pytest.approx({token: math.exp(score) / total for token, score in scores.items()})
    assert blend.none == pytest.approx(math.exp(none) / total)


def test_a_source_alone_is_taken_at_its_word() -> None:
    said = {1: 0.5, 2: 0.2}
    assert Pool(["anybody"]).blend([said], 1).shares == pytest.approx(said)


def test_sources_that_agree_are_surer_together_and_chances_sum_to_one_at_most() -> None:
    pool = Pool(PAIR)
    together = pool.blend([{1: 0.5}, {1: 0.5}], 0)
    assert together.shares[1] > pool.blend([{1: 0.5}, {2: 0.5}], 0).shares[1]
    assert sum(together.shares.values()) + together.none == pytest.approx(1.0)


@pytest.mark.parametrize("told", [[None, None], [{}, None], [{1: 0.001}, None]])
def test_where_nobody_names_anything_nothing_is_said(told: list[dict[int, float] | None]) -> None:
    pool = Pool(PAIR)
    blend = pool.blend(told, 0)
    assert blend.shares == {}
    pool.learn(blend, 1)
    assert pool.num_steps == 0


def test_noise_lifts_the_token_that_the_target_will_choose() -> None:
    pool = Pool(PAIR)
    shares = pool.blend([{1: 0.4, 2: 0.4}, None], 0, {1: 0.1, 2: 2.0}).shares
    assert shares[2] > 3 * shares[1]


def test_faint_tokens_are_named_where_the_noise_favours_them_and_nowhere_else() -> None:
    said, gumbel = {1: 0.5, 2: 0.01, 3: 0.01}, {1: 0.0, 2: 4.0, 3: 0.5}
    assert lifted(said, gumbel) == {1: 0.5, 2: 0.01}
    pool = Pool(PAIR)
    assert pool.blend([said, None], 0).shares.keys() == {1}
    assert pool.blend([lifted(said, gumbel), None], 0, gumbel).shares.keys() == {1, 2}


def test_learning_is_a_step_down_the_gradient_of_the_log_likelihood() -> None:
    """Every weight moves against its numerical derivative."""
    told, truth, depth = [{1: 0.5, 2: 0.2}, {2: 0.3, 3: 0.1}, None], 2, 1
    names = ("a", "b", "c")
    gumbel = {1: 0.4, 2: 1.0, 3: -0.2}

    def loss(pool: Pool) -> float:
        return -math.log(pool.blend(told, depth, gumbel).shares[truth])

    learned = Pool(names)
    learned.learn(learned.blend(told, depth, gumbel), truth)
    for number in range(3):
        for slot in SourceWeights.__slots__:
            nudged = Pool(names)
            start = getattr(nudged.weights.sources[number], slot)
            setattr(nudged.weights.sources[number], slot, start + 1e-5)
            slope = (loss(nudged) - loss(Pool(names))) / 1e-5
            moved = getattr(learned.weights.sources[number], slot) - start
            assert moved == pytest.approx(-0.03 * slope, abs=1e-5), (number, slot)
    nudged = Pool(names)
    nudged.weights.noise += 1e-5
    slope = (loss(nudged) - loss(Pool(names))) / 1e-5
    assert learned.weights.noise - 1.0 == pytest.approx(-0.03 * slope, abs=1e-5)


def test_shares_become_as_frequent_as_they_say() -> None:
    """A source that is right half as often as it says is found out, and one that is right twice as often too."""
    pool, chance = Pool(PAIR), random.Random(5)
    counts = {1: 0, 2: 0}
    expected = {1: 0.0, 2: 0.0}
    for step in range(6000):
        told = [{1: 0.8}, {2: 0.2}]
        value = chance.random()
        truth = 1 if value < 0.4 else 2 if value < 0.8 else 3
        blend = pool.blend(told, 0)
        if step > 3000:
            for token in counts:
                counts[token] += truth == token
                expected[token] += blend.shares[token]
        pool.learn(blend, truth)
    for token in counts:
        assert expected[token] == pytest.approx(counts[token], rel=0.1)


def test_a_source_that_is_always_wrong_is_not_followed_for_long() -> None:
    pool = Pool(PAIR)
    for step in range(400):
        blend = pool.blend([{1: 0.9}, {2: 0.5}], 0)
        pool.learn(blend, 2 if step % 2 else 3)
    shares = pool.blend([{1: 0.9}, {2: 0.5}], 0).shares
    assert shares[1] < 0.1 < shares[2]


def test_weights_stay_within_bounds_whatever_happens() -> None:
    pool = Pool(PAIR)
    for step in range(3000):
        pool.learn(pool.blend([{1: 0.999, 2: 0.0009}, {1: 1.0}], step % 9), 7)
    start = prior_of(PAIR)
    for source, prior in zip(pool.weights.sources, start.sources, strict=True):
        for slot in SourceWeights.__slots__:
            assert abs(getattr(source, slot) - getattr(prior, slot)) <= FARTHEST


def test_priors_follow_the_names_and_not_the_order() -> None:
    forwards, backwards = prior_of(PAIR), prior_of(PAIR[::-1])
    assert forwards.sources == backwards.sources[::-1]
    assert forwards.sources[0] is not prior_of(PAIR).sources[0]


def test_a_set_that_was_never_fitted_starts_from_what_is_known_of_its_members() -> None:
    mixed = prior_of(["a network", "table"])
    assert mixed.sources[1] == prior_of(["table", "recent", "suffix+shared"]).sources[0]
    assert mixed.sources[0] == prior_of(["some", "others"]).sources[0]
