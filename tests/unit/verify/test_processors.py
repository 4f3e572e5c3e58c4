"""Penalties, logit_bias and min_tokens."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError, RequestRefused
from paradraft.core.sampling import SamplingParams
from paradraft.verify.law import law_of
from paradraft.verify.processors import adjust, check_sampling
from support.reference_law import reference_law
from support.steps import sampling_of

LOGITS = np.array([2.0, -1.0, 0.5, 0.0, 3.0, -2.0], dtype=np.float32)
HISTORY = [0, 1, 4, 4, 2, 4]  # the first two are the prompt


def adjusted(params: SamplingParams, history: list[int] = HISTORY, stop_ids: tuple[int, ...] = ()) -> list[float]:
    sampling = sampling_of(params, prompt_len=2, stop_ids=stop_ids)
    return [float(value) for value in adjust(LOGITS, sampling, ints(history))]


def test_nothing_asked_gives_the_logits_themselves() -> None:
    assert adjust(LOGITS, sampling_of(SamplingParams(), prompt_len=2, stop_ids=(1,)), ints(HISTORY)) is LOGITS


def test_repetition_penalty_shrinks_every_token_seen_prompt_included() -> None:
    assert adjusted(SamplingParams(repetition_penalty=2.0)) == [1.0, -2.0, 0.25, 0.0, 1.5, -2.0]


def test_frequency_penalty_counts_the_output_only() -> None:
    assert adjusted(SamplingParams(frequency_penalty=0.5)) == [2.0, -1.0, 0.0, 0.0, 1.5, -2.0]


def test_presence_penalty_counts_the_output_once() -> None:
    assert adjusted(SamplingParams(presence_penalty=0.5)) == [2.0, -1.0, 0.0, 0.0, 2.5, -2.0]


def test_negative_penalties_raise_tokens() -> None:
    assert adjusted(SamplingParams(frequency_penalty=-1.0, presence_penalty=-1.0)) == [2.0, -1.0, 2.5, 0.0, 7.0, -2.0]


def test_bias_is_added_after_penalties() -> None:
    params = SamplingParams(repetition_penalty=2.0, logit_bias={0: 1.0, 5: -100.0})
    assert adjusted(params) == [2.0, -2.0, 0.25, 0.0, 1.5, -102.0]


def test_min_tokens_masks_stops_until_enough_tokens_came() -> None:
    params = SamplingParams(min_tokens=5)
    assert adjusted(params, stop_ids=(4, 1)) == [2.0, -np.inf, 0.5, 0.0, -np.inf, -2.0]
    assert adjusted(params, [*HISTORY, 0], stop_ids=(4, 1)) == LOGITS.tolist()


def test_no_bias_brings_a_masked_stop_back() -> None:
    assert adjusted(SamplingParams(min_tokens=5, logit_bias={4: 100.0}), stop_ids=(4,))[4] == -np.inf


def test_stop_ids_beyond_the_vocabulary_do_no_harm() -> None:
    assert adjusted(SamplingParams(min_tokens=5), stop_ids=(6, 70_000)) == LOGITS.tolist()


def test_an_empty_output_is_not_penalised() -> None:
    assert adjusted(SamplingParams(frequency_penalty=2.0, presence_penalty=2.0), [0, 1]) == LOGITS.tolist()


def test_all_processors_together_agree_with_the_reference() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        logits = (3 * rng.standard_normal(30)).astype(np.float32)
        history = rng.integers(30, size=rng.integers(3, 60)).tolist()
        params = SamplingParams(
            temperature=float(rng.choice([0.0, 0.6, 1.0])),
            top_k=int(rng.choice([0, 4])),
            top_p=float(rng.choice([0.7, 1.0])),
            min_p=float(rng.choice([0.0, 0.1])),
            repetition_penalty=float(rng.uniform(0.5, 2.0)),
            frequency_penalty=float(rng.uniform(-2, 2)),
            presence_penalty=float(rng.uniform(-2, 2)),
            logit_bias={int(token): float(rng.uniform(-5, 5)) for token in rng.integers(30, size=3)},
            min_tokens=20,
        )
        sampling = sampling_of(params, prompt_len=3, stop_ids=(0, 7))
        law = law_of(logits, sampling, ints(history))
        expected = reference_law(logits, sampling, history)
        ids = np.arange(30) if law.ids is None else law.ids
        np.testing.assert_allclose(law.probabilities, expected[ids], rtol=2e-5, atol=1e-9)


def test_a_request_that_forbids_every_token_is_refused_at_admission() -> None:
    params = SamplingParams(min_tokens=1)
    check_sampling(sampling_of(params, prompt_len=2, stop_ids=(0, 1, 2, 2, 9)), 4)
    with pytest.raises(RequestRefused, match=r"min_tokens=1 forbids every token"):
        check_sampling(sampling_of(params, prompt_len=2, stop_ids=(3, 2, 1, 0)), 4)


def test_a_law_without_any_token_is_an_error_not_a_guess() -> None:
    sampling = sampling_of(SamplingParams(min_tokens=1), prompt_len=2, stop_ids=tuple(range(6)))
    with pytest.raises(ProtocolError, match="no token"):
        law_of(LOGITS, sampling, ints([0, 1]))


def test_bias_beyond_the_vocabulary_is_refused_at_admission_and_never_dropped() -> None:
    sampling = sampling_of(SamplingParams(logit_bias={6: 1.0}), prompt_len=2)
    with pytest.raises(RequestRefused, match="token 6"):
        check_sampling(sampling, 6)
    with pytest.raises(ProtocolError, match="token 6"):
        law_of(LOGITS, sampling, ints([0, 1]))
    check_sampling(sampling, 7)
