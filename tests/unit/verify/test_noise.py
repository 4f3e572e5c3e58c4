"""The keyed noise: its law, its independence, its stability."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.verify.noise import ACCEPT, DRAFT, HEAD, RACE, RESIDUAL, GumbelNoise, _exponentials, _uniform, lane
from support.chi_square import fits

STREAMS = (RACE, DRAFT, ACCEPT, RESIDUAL)


def counts_of(weights: DoubleArray, ids: IntArray | None, num_draws: int, *, seed: int, stream: int = RACE) -> IntArray:
    noise = GumbelNoise(seed, 0)
    draws = [noise.choose(weights, ids, position=position, stream=stream) for position in range(num_draws)]
    return np.bincount(draws, minlength=len(weights)).astype(np.int32)


@pytest.mark.parametrize("stream", STREAMS)
def test_choose_has_the_law_of_its_weights(stream: int) -> None:
    weights = np.array([5.0, 0.0, 1.0, 3.0, 0.01, 1.0])
    counts = counts_of(weights, ints([9, 2, 400, 7, 8, 1]), 20_000, seed=stream, stream=stream)
    assert fits(counts, weights / weights.sum())


def test_choose_notices_a_wrong_law() -> None:
    weights = np.array([5.0, 1.0, 3.0, 1.0])
    counts = counts_of(weights, None, 20_000, seed=3)
    assert not fits(counts, np.array([0.52, 0.09, 0.29, 0.10]))


def test_choose_has_the_law_of_its_weights_over_seeds_and_choices() -> None:
    weights = np.array([0.5, 0.2, 0.3])
    draws = [
        GumbelNoise(seed, choice).choose(weights, None, position=17, stream=RACE)
        for seed in range(5000)
        for choice in range(4)
    ]
    assert fits(np.bincount(draws, minlength=3), weights)


def test_a_flat_law_longer_than_the_head_is_drawn_evenly() -> None:
    counts = counts_of(np.full(1000, 0.001), None, 20_000, seed=4)
    assert fits(counts, np.full(1000, 0.001))
    assert fits([counts[:HEAD].sum(), counts[HEAD:].sum()], [HEAD / 1000, 1 - HEAD / 1000])


def test_a_steep_law_longer_than_the_head_is_drawn_by_weight() -> None:
    weights = 1.0 / np.arange(1, 601)
    weights = np.random.default_rng(0).permutation(weights)
    assert fits(counts_of(weights, None, 20_000, seed=5), weights / weights.sum())


def draws_of_the_tail(weights: DoubleArray, num_draws: int, *, seed: int) -> list[tuple[int, int]]:
    """Return (position, index) of the draws that fell on other than the HEAD first."""
    noise = GumbelNoise(seed, 0)
    draws = [(at, noise.choose(weights, None, position=at, stream=RACE)) for at in range(num_draws)]
    return [(at, index) for at, index in draws if index >= HEAD]


def test_a_draw_from_the_tail_has_the_law_of_its_weights_there() -> None:
    tail = 1.0 / np.arange(1, 41)
    weights = np.concatenate([np.full(HEAD, 1.1), 20 * tail / tail.max()])
    weights[HEAD:] = np.minimum(weights[HEAD:], 1.0)
    indices = [index - HEAD for _, index in draws_of_the_tail(weights, 40_000, seed=31)]
    assert fits(np.bincount(indices, minlength=40), weights[HEAD:] / weights[HEAD:].sum())


def test_when_the_tail_wins_says_nothing_about_which_of_it_does() -> None:
    """The two variables of a draw are independent: early and late tails have the same winners."""
    weights = np.concatenate([np.full(HEAD, 1.0), np.linspace(0.1, 0.9, 30)])
    drawn = draws_of_the_tail(weights, 40_000, seed=32)
    tails = np.array([GumbelNoise(32, 0).at(at).of_tail() for at, _ in drawn])
    is_early = tails > np.median(tails)
    indices = np.array([index for _, index in drawn]) - HEAD
    law = weights[HEAD:] / weights[HEAD:].sum()
    assert fits(np.bincount(indices[is_early], minlength=30), law)
    assert fits(np.bincount(indices[~is_early], minlength=30), law)


def test_the_tail_is_won_by_the_largest_log_weight_plus_gumbel() -> None:
    rng = np.random.default_rng(33)
    weights = np.concatenate([np.full(HEAD, 1.0), rng.uniform(0.0, 0.9, size=700)])
    rest = ints(range(HEAD, len(weights)))
    drawn = draws_of_the_tail(weights, 300, seed=33)
    assert len(drawn) > 100
    for position, index in drawn:
        scores = np.log(weights[HEAD:]) + GumbelNoise(33, 0).gumbel(rest, position=position)
        assert index == HEAD + int(scores.argmax())


def test_weights_that_rounding_has_touched_seldom_move_a_draw_from_the_tail() -> None:
    """A point on a cumulative sum over so many would move nearly always."""
    rng = np.random.default_rng(34)
    weights = np.exp(rng.standard_normal(20_000))
    touched = weights * (1 + 0.05 * rng.uniform(-1, 1, size=len(weights)))
    noise = GumbelNoise(34, 0)
    draws = [[noise.choose(each, None, position=at, stream=RACE) for each in (weights, touched)] for at in range(200)]
    assert sum(ours == theirs for ours, theirs in draws) >= 180
    head = set(np.argsort(-weights)[:HEAD].tolist())
    assert sum(ours not in head for ours, _ in draws) > 100


def test_a_tail_without_weight_is_never_drawn() -> None:
    weights = np.zeros(2000)
    weights[1500:1600] = 0.1
    assert counts_of(weights, None, 500, seed=6)[1500:1600].sum() == 500


@pytest.mark.parametrize("size", [5, HEAD, 700])
def test_the_outcome_depends_on_pairs_of_id_and_weight_only(size: int) -> None:
    rng = np.random.default_rng(1)
    ids = np.sort(rng.choice(50_000, size=size, replace=False)).astype(np.int32)
    weights = rng.uniform(size=size)
    order = rng.permutation(size)
    for seed in range(200):
        noise = GumbelNoise(seed, 0)
        straight = ids[noise.choose(weights, ids, position=9, stream=RACE)]
        shuffled = ids[order][noise.choose(weights[order], ids[order], position=9, stream=RACE)]
        assert straight == shuffled


def test_ids_that_are_left_out_are_the_indices() -> None:
    weights = np.random.default_rng(2).uniform(size=800)
    for seed in range(50):
        noise = GumbelNoise(seed, 1)
        assert noise.choose(weights, None, position=1, stream=0) == noise.choose(
            weights, ints(range(800)), position=1, stream=0
        )


def test_scaling_the_weights_changes_nothing() -> None:
    weights = np.random.default_rng(3).uniform(size=100)
    for seed in range(50):
        noise = GumbelNoise(seed, 1)
        draws = {noise.choose(scale * weights, None, position=1, stream=0) for scale in (1e-200, 1.0, 1e200)}
        assert len(draws) == 1


def test_similar_laws_mostly_give_the_same_token() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.full(50, 0.3))
    q = 0.9 * p + 0.1 * rng.dirichlet(np.full(50, 0.3))
    overlap = float(np.minimum(p, q).sum())
    noises = [GumbelNoise(seed, 0) for seed in range(2000)]
    same = sum(
        noise.choose(p, None, position=0, stream=0) == noise.choose(q, None, position=0, stream=0) for noise in noises
    )
    assert same / 2000 > overlap / (2 - overlap) - 0.03


@pytest.mark.parametrize("probability", [0.003, 0.5, 0.9])
@pytest.mark.parametrize("stream", STREAMS)
def test_flip_has_its_probability(probability: float, stream: int) -> None:
    noise = GumbelNoise(8, 0)
    heads = sum(noise.flip(probability, position=position, stream=stream) for position in range(20_000))
    assert fits([heads, 20_000 - heads], [probability, 1 - probability])


def test_flip_is_certain_at_the_ends() -> None:
    noise = GumbelNoise(0, 0)
    assert all(noise.flip(1.0, position=position, stream=0) for position in range(2000))
    assert not any(noise.flip(0.0, position=position, stream=0) for position in range(2000))


def test_uniforms_lie_strictly_between_zero_and_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for extreme in (0, 2**64 - 1):
        monkeypatch.setattr("paradraft.verify.noise._mix", lambda state, extreme=extreme: extreme)
        noise = GumbelNoise(0, 0)
        assert noise.flip(1.0, position=0, stream=0)
        assert not noise.flip(0.0, position=0, stream=0)


def test_arrays_and_single_draws_are_hashed_alike() -> None:
    ids = np.random.default_rng(7).integers(2**31 - 1, size=2000).astype(np.int32)
    for key in (0, 1, 2**63 + 12345, 2**64 - 1):
        assert _exponentials(key, ids).tolist() == (-np.log([_uniform(key, token) for token in ids.tolist()])).tolist()


def test_gumbel_variables_have_the_gumbel_law() -> None:
    values = GumbelNoise(21, 0).gumbel(ints(range(40_000)), position=3)
    grid = np.linspace(0.05, 0.95, 19)
    counts = np.histogram(np.exp(-np.exp(-values)), bins=[0, *grid, 1])[0]
    assert fits(counts, np.full(20, 0.05))


def test_choose_is_the_argmax_of_log_weight_plus_gumbel() -> None:
    rng = np.random.default_rng(5)
    ids = np.sort(rng.choice(9000, size=HEAD, replace=False)).astype(np.int32)
    for seed in range(100):
        weights, noise = rng.uniform(size=HEAD), GumbelNoise(seed, 3)
        scores = np.log(weights) + noise.gumbel(ids, position=5, stream=DRAFT)
        assert noise.choose(weights, ids, position=5, stream=DRAFT) == int(scores.argmax())


def series(seed: int = 1, choice: int = 0, position: int = 0, stream: int = RACE) -> DoubleArray:
    return GumbelNoise(seed, choice).gumbel(ints(range(20_000)), position=position, stream=stream)


@pytest.mark.parametrize(
    "other",
    [
        *({"stream": stream} for stream in (DRAFT, ACCEPT, RESIDUAL, lane(RACE, 1), lane(DRAFT, 7))),
        {"seed": 2},
        {"seed": 2**63},
        {"seed": 0, "choice": 1},
        {"choice": 1},
        {"position": 1},
        {"position": 2**20},
    ],
)
def test_another_key_gives_uncorrelated_noise(other: dict[str, int]) -> None:
    left, right = series(), series(**other)
    for shift in (0, 1, 2):
        correlation = np.corrcoef(left[: 20_000 - shift], right[shift:])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(20_000)


def test_neighbouring_ids_are_uncorrelated() -> None:
    values = series()
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / np.sqrt(20_000)


def test_flips_of_different_streams_agree_by_chance_only() -> None:
    noise = GumbelNoise(5, 0)
    streams = [*STREAMS, *(lane(ACCEPT, order) for order in range(1, 5))]
    flips = np.array([[noise.flip(0.5, position=at, stream=stream) for at in range(4000)] for stream in streams])
    agreement = (flips[:, None] == flips[None]).mean(axis=2)
    assert np.abs(agreement - 0.5 - 0.5 * np.eye(len(streams))).max() < 4 * 0.5 / np.sqrt(4000)


def test_lanes_are_disjoint() -> None:
    lanes = [lane(stream, index) for stream in STREAMS for index in range(100)]
    assert len(set(lanes)) == 400
    assert [lane(stream, 0) for stream in STREAMS] == list(STREAMS)


def test_the_same_key_gives_the_same_noise_in_any_order() -> None:
    weights = np.random.default_rng(6).uniform(size=300)
    keys = [(position, stream) for position in range(20) for stream in STREAMS]
    first = {key: GumbelNoise(3, 1).choose(weights, None, position=key[0], stream=key[1]) for key in keys}
    again = GumbelNoise(3, 1)
    for key in reversed(keys):
        assert again.choose(weights, None, position=key[0], stream=key[1]) == first[key]


def test_seeds_keep_their_meaning() -> None:
    """These draws are part of what a seed promises; they may only change with a note to users."""
    weights = np.arange(1.0, 1001.0)
    draws = [GumbelNoise(seed, seed % 3).choose(weights, None, position=40, stream=RACE) for seed in range(8)]
    few = [GumbelNoise(seed, 0).choose(weights[:10], None, position=2, stream=RESIDUAL) for seed in range(8)]
    flips = [GumbelNoise(2**64 - 1, 0).flip(0.5, position=at, stream=ACCEPT) for at in range(8)]
    assert draws == DRAWS
    assert few == FEW
    assert flips == FLIPS


DRAWS = [950, 610, 449, 828, 788, 750, 826, 704]
FEW = [6, 9, 4, 4, 5, 5, 9, 2]
FLIPS = [True, True, True, False, False, True, True, False]


@pytest.mark.parametrize("weights", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [-1.0, 0.5]])
def test_weights_that_are_no_distribution_are_refused(weights: list[float]) -> None:
    with pytest.raises(ProtocolError, match="not a distribution"):
        GumbelNoise(0, 0).choose(np.array(weights), None, position=0, stream=0)
