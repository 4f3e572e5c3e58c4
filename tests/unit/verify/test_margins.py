"""Margins of the races: what logits could have chosen is near, what they could not is far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.sampling import SamplingParams
from paradraft.verify.coupled import draw
from paradraft.verify.law import law_of
from paradraft.verify.margins import BORDER, FIRST_RACE, LOGITS, TAIL_RACE, margin_at_best, margin_of_races
from paradraft.verify.noise import HEAD, GumbelNoise
from support.steps import sampling_of

SIZE = 900
ROUNDING = 1e-5
NUM_SEEDS = 300


def rows(spread: float) -> Callable[[np.random.Generator], FloatArray]:
    return lambda rng: (rng.standard_normal(SIZE) * spread).astype(np.float32)


def in_steps(rng: np.random.Generator) -> FloatArray:
    """Logits with many ties, as of a format with few bits."""
    return (np.round(rng.standard_normal(SIZE) * 8) / 8).astype(np.float32)


def just_above_the_border(rng: np.random.Generator) -> FloatArray:
    """Logits in which the last ids of the head and the first of the tail are nearly alike, and worth something."""
    row = np.full(SIZE, -3.0)
    row[: HEAD + 40] = 0.02 * rng.standard_normal(HEAD + 40)
    return rng.permutation(row).astype(np.float32)


ROWS = {
    "flat": rows(0.1),
    "usual": rows(1.0),
    "steep": rows(2.0),
    "in steps": in_steps,
    "at the border": just_above_the_border,
}


def choice(logits: FloatArray, temperature: float, seed: int) -> int:
    sampling = sampling_of(SamplingParams(temperature=temperature), prompt_len=1, seed=seed)
    return draw(law_of(logits, sampling, ints([])), GumbelNoise(seed, 0), 5)


def margin(logits: FloatArray, temperature: float, seed: int, *tokens: int):
    return margin_of_races(logits, temperature, GumbelNoise(seed, 0).at(5), tokens)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.6])
@pytest.mark.parametrize("name", ROWS)
def test_what_is_chosen_by_logits_within_a_distance_has_a_margin_of_twice_that_at_most(
    name: str, temperature: float
) -> None:
    rng, distance, num_different = np.random.default_rng(1), 0.12, 0
    for seed in range(NUM_SEEDS):
        logits = ROWS[name](rng)
        shifts = rng.uniform(-distance, distance, size=(2, SIZE))
        ours, theirs = (choice((logits + shift).astype(np.float32), temperature, seed) for shift in shifts)
        num_different += ours != theirs
        assert margin(logits, temperature, seed, ours, theirs).size <= 2 * distance + ROUNDING
    assert num_different > 5


def test_the_choice_itself_has_no_margin() -> None:
    rng = np.random.default_rng(2)
    for seed, name in enumerate(list(ROWS) * 30):
        logits = ROWS[name](rng)
        assert margin(logits, 0.9, seed, choice(logits, 0.9, seed)).size <= ROUNDING


@pytest.mark.parametrize("name", ["usual", "steep"])
def test_the_choice_of_another_seed_is_mostly_far_away(name: str) -> None:
    rng, far = np.random.default_rng(3), []
    for seed in range(NUM_SEEDS):
        logits = ROWS[name](rng)
        ours, theirs = choice(logits, 1.0, seed), choice(logits, 1.0, seed + 1000)
        if ours != theirs:
            far.append(margin(logits, 1.0, seed, ours, theirs).size)
    assert np.mean(np.array(far) > 0.5) > 0.9


def test_each_comparison_decides_somewhere() -> None:
    rng, places = np.random.default_rng(4), Counter[str]()
    for name in ROWS:
        for seed in range(NUM_SEEDS):
            logits = ROWS[name](rng)
            other = (logits + rng.uniform(-0.3, 0.3, SIZE)).astype(np.float32)
            ours, theirs = choice(logits, 1.0, seed), choice(other, 1.0, seed)
            places[margin(logits, 1.0, seed, ours, theirs).place] += ours != theirs
    assert set(places) == {FIRST_RACE, TAIL_RACE, BORDER}
    assert min(places.values()) > 5


def seed_with(wanted: Callable[[int], bool]) -> int:
    return next(seed for seed in range(10_000) if wanted(seed))


def test_a_margin_of_the_first_race_is_how_much_later_the_runner_up_finishes() -> None:
    logits = np.full(SIZE, -50.0, dtype=np.float32)
    logits[[3, 8]] = 0.0
    first, second = GumbelNoise(9, 0).gumbel(ints([3, 8]), position=5)
    found = margin(logits, 0.7, 9, 3, 8)
    assert found.place == FIRST_RACE
    assert found.size == pytest.approx(0.7 * abs(first - second))


def test_a_margin_of_the_tail_race_is_how_much_later_its_runner_up_finishes() -> None:
    logits = np.full(SIZE, -4.0, dtype=np.float32)
    logits[:HEAD] = 0.0
    seed = seed_with(lambda seed: choice(logits, 1.0, seed) >= HEAD)
    gumbel = GumbelNoise(seed, 0).gumbel(ints(range(HEAD, SIZE)), position=5)
    runner_up, winner = np.argsort(gumbel)[-2:].tolist()
    assert choice(logits, 1.0, seed) == HEAD + winner
    found = margin(logits, 1.0, seed, HEAD + winner, HEAD + runner_up)
    assert found.place == TAIL_RACE
    assert found.size == pytest.approx(gumbel[winner] - gumbel[runner_up])


def test_a_margin_of_the_border_is_how_far_the_token_lies_from_it() -> None:
    """The 257th would win the first race by far, and nothing but its rank keeps it out."""
    logits = np.full(SIZE, -40.0, dtype=np.float32)
    logits[: HEAD + 1] = 0.0
    logits[HEAD] = -0.01
    gumbels = (GumbelNoise(seed, 0).gumbel(ints(range(HEAD + 1)), position=5) for seed in range(10_000))
    seed = next(seed for seed, gumbel in enumerate(gumbels) if gumbel.argmax() == HEAD)
    ours = choice(logits, 1.0, seed)
    assert ours != HEAD
    found = margin(logits, 1.0, seed, ours, HEAD)
    assert found.place == BORDER
    assert found.size == pytest.approx(0.01)


def test_without_noise_the_margin_is_the_distance_from_the_largest_logit() -> None:
    logits = np.array([1.0, 3.0, 2.5], dtype=np.float32)
    found = margin_at_best(logits, [1, 2])
    assert (found.size, found.place) == (0.5, LOGITS)


def test_a_vocabulary_without_a_tail_has_only_the_first_race() -> None:
    rng = np.random.default_rng(6)
    for seed in range(50):
        logits = rng.standard_normal(100).astype(np.float32)
        noise = GumbelNoise(seed, 0).gumbel(ints(range(100)), position=5)
        scores = logits + 0.8 * noise
        found = margin(logits, 0.8, seed, 17, 60)
        assert found.place == FIRST_RACE
        assert found.size == pytest.approx(scores.max() - min(scores[17], scores[60]))
