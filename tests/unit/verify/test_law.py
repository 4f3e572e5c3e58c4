"""From logits to a law: the order of the processors, cuts, ties, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray, FloatArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.core.sampling import SamplingParams
from paradraft.verify.law import Law, law_of
from support.reference_law import reference_law
from support.steps import sampling_of

PROMPT_LEN = 4


def dense(law: Law, vocab_size: int) -> DoubleArray:
    probabilities = np.zeros(vocab_size)
    probabilities[slice(None) if law.ids is None else law.ids] = law.probabilities
    return probabilities


def compare(logits: FloatArray, params: SamplingParams, history: list[int], stop_ids: tuple[int, ...] = ()) -> Law:
    """Check the law against the slow reference, and return it."""
    sampling = sampling_of(params, prompt_len=PROMPT_LEN, stop_ids=stop_ids)
    before = logits.copy()
    law = law_of(logits, sampling, ints(history))
    expected = reference_law(logits, sampling, history)
    found = dense(law, len(logits))
    assert np.array_equal(logits, before), "logits were written to"
    assert law.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((found > 0) == (expected > 1e-45)).all()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-9)
    return law


GRID = [
    SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    for temperature, top_k, top_p, min_p in itertools.product(
        (0.0, 0.3, 1.0, 1.7), (0, 1, 7, 1000), (0.05, 0.6, 0.99, 1.0), (0.0, 0.02, 0.5)
    )
]


@pytest.mark.parametrize("vocab_size", [5, 70, 700])
def test_every_combination_of_cuts_agrees_with_the_reference(vocab_size: int) -> None:
    rng = np.random.default_rng(vocab_size)
    for params in GRID:
        logits = (3 * rng.standard_normal(vocab_size)).astype(np.float32)
        compare(logits, params, [1, 2, 3, 0])


@pytest.mark.parametrize("scale", [0.0, 0.02, 1.0])
def test_top_p_reaches_as_deep_as_the_law_is_flat(scale: float) -> None:
    logits = (scale * np.random.default_rng(1).standard_normal(9000)).astype(np.float32)
    for top_p in (0.001, 0.02, 0.3, 0.8, 0.999):
        compare(logits, SamplingParams(top_p=top_p), [0] * PROMPT_LEN)


def test_ties_at_a_cut_go_to_the_lowest_id() -> None:
    logits = np.zeros(1000, dtype=np.float32)
    logits[[900, 901]] = 1.0
    for params in (SamplingParams(top_k=5), SamplingParams(top_k=5, min_p=0.1)):
        law = law_of(logits, sampling_of(params, prompt_len=0), ints([]))
        assert law.ids is not None
        assert law.ids.tolist() == [0, 1, 2, 900, 901]
    law = law_of(np.zeros(1000, dtype=np.float32), sampling_of(SamplingParams(top_p=0.4), prompt_len=0), ints([]))
    assert law.ids is not None
    assert law.ids.tolist() == list(range(400))
    assert law_of(logits, sampling_of(SamplingParams(temperature=0.0), prompt_len=0), ints([])).token(0) == 900


def test_top_p_measures_what_the_cuts_before_it_left() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], dtype=np.float32))
    alone = law_of(logits, sampling_of(SamplingParams(top_p=0.5), prompt_len=0), ints([]))
    behind = law_of(logits, sampling_of(SamplingParams(top_p=0.5, top_k=2), prompt_len=0), ints([]))
    assert alone.ids is not None
    assert alone.ids.tolist() == [0, 1]
    assert behind.ids is not None
    assert behind.ids.tolist() == [0]


def test_the_token_that_crosses_top_p_is_kept() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.2], dtype=np.float32))
    for top_p, kept in ((0.4, [0]), (0.55, [0, 1]), (0.79, [0, 1])):
        law = law_of(logits, sampling_of(SamplingParams(top_p=top_p), prompt_len=0), ints([]))
        assert law.ids is not None
        assert law.ids.tolist() == kept


def test_min_p_is_relative_to_the_most_probable_token_after_temperature() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.1], dtype=np.float32))
    for temperature, kept in ((1.0, [0, 1]), (2.0, [0, 1, 2]), (0.5, [0])):
        params = SamplingParams(temperature=temperature, min_p=0.35)
        law = law_of(logits, sampling_of(params, prompt_len=0), ints([]))
        assert (list(range(3)) if law.ids is None else law.ids.tolist()) == kept


def test_min_p_one_keeps_the_best_and_its_equals() -> None:
    logits = np.array([1.0, 3.0, 2.9, 3.0], dtype=np.float32)
    law = law_of(logits, sampling_of(SamplingParams(min_p=1.0), prompt_len=0), ints([]))
    assert law.ids is not None
    assert (law.ids.tolist(), law.probabilities.tolist()) == ([1, 3], [0.5, 0.5])


@pytest.mark.parametrize("size", [1, 127, 128, 129, 2047, 2048, 2049, 2999])
def test_top_p_is_cut_at_the_right_token_wherever_the_search_ends(size: int) -> None:
    logits = np.random.default_rng(0).permutation(np.linspace(0, 1, 3000)).astype(np.float32)
    weights = np.sort(np.exp(logits.astype(np.float64)))[::-1]
    sums = np.cumsum(weights) / weights.sum()
    top_p = float(sums[size - 1] - 0.4 * weights[size - 1] / weights.sum())
    law = law_of(logits, sampling_of(SamplingParams(top_p=top_p), prompt_len=0), ints([]))
    assert law.ids is not None
    assert law.ids.tolist() == sorted(np.argsort(-logits)[:size].tolist())


def test_no_cut_keeps_the_whole_vocabulary() -> None:
    law = law_of(np.zeros(50, dtype=np.float32), sampling_of(SamplingParams(), prompt_len=0), ints([]))
    assert law.ids is None
    assert law.probabilities.tolist() == [0.02] * 50


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-5])
def test_the_smallest_temperatures_stay_finite(temperature: float) -> None:
    logits = np.array([1.0, 3.0, 3.0, -80.0], dtype=np.float32)
    law = law_of(logits, sampling_of(SamplingParams(temperature=temperature), prompt_len=0), ints([]))
    assert law.probabilities.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_a_large_temperature_is_almost_flat() -> None:
    logits = np.array([1.0, 3.0, -3.0], dtype=np.float32)
    law = law_of(logits, sampling_of(SamplingParams(temperature=100.0), prompt_len=0), ints([]))
    assert np.abs(law.probabilities - 1 / 3).max() < 0.02


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("place", [0, 40, 69])
def test_logits_that_are_not_finite_are_refused(bad: float, temperature: float, place: int) -> None:
    logits = np.zeros(70, dtype=np.float32)
    logits[place] = bad
    for params in (SamplingParams(temperature=temperature), SamplingParams(temperature=temperature, min_tokens=9)):
        sampling = sampling_of(params, prompt_len=0, stop_ids=(place,))
        with pytest.raises(ProtocolError, match="NaN or infinity"):
            law_of(logits, sampling, ints([]))


def test_probability_is_zero_outside_the_support() -> None:
    sparse = Law(ids=ints([2, 5]), probabilities=np.array([0.25, 0.75]))
    assert [sparse.probability(token) for token in (-1, 0, 2, 3, 5, 6)] == [0, 0, 0.25, 0, 0.75, 0]
    whole = Law(ids=None, probabilities=np.array([0.25, 0.75]))
    assert [whole.probability(token) for token in (-1, 0, 1, 2)] == [0, 0.25, 0.75, 0]
