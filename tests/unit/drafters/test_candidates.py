from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints, starts_of
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftHeat, DraftLaw, best, draft_law, draws, is_deterministic, race
from paradraft.drafters.vocabulary import NO_ID
from paradraft.verify.noise import GumbelNoise
from support.enumeration import outcomes
from support.stub_target import StubScores

LOGITS = np.array([1.0, 3.0, 2.0, -1.0, 0.5], dtype=np.float32)
SAME = ints(range(5))
WARM = SamplingParams(temperature=1.0)


def law_of(params: SamplingParams = WARM, heat: DraftHeat | None = None, to_target: np.ndarray = SAME) -> DraftLaw:
    scores = StubScores([LOGITS], starts_of([1]), starts_of([1]))
    return draft_law(scores, 0, params, heat or DraftHeat(), to_target)


def softmax(values: np.ndarray) -> np.ndarray:
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def as_vector(law: DraftLaw) -> np.ndarray:
    vector = np.zeros(5)
    vector[law.ids] = law.probabilities
    return vector


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_the_rows_temperature_is_the_drafters_unless_it_has_its_own(temperature: float) -> None:
    expected = softmax(LOGITS.astype(np.float64) / temperature)
    assert as_vector(law_of(SamplingParams(temperature=temperature))) == pytest.approx(expected)
    assert as_vector(law_of(WARM, DraftHeat(temperature=temperature))) == pytest.approx(expected)


def test_the_end_tokens_have_a_temperature_of_their_own() -> None:
    heat = DraftHeat(temperature=0.5, eos_temperature=4.0, eos_ids=(3,))
    values = (LOGITS - 3.0) / np.array([0.5, 0.5, 0.5, 4.0, 0.5])
    law = law_of(WARM, heat)
    assert as_vector(law) == pytest.approx(softmax(values))
    assert as_vector(law)[3] > as_vector(law_of(WARM, DraftHeat(temperature=0.5)))[3]
    assert (np.diff(law.probabilities) <= 0).all()


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        (SamplingParams(temperature=1.0, top_k=2), {1, 2}),
        (SamplingParams(temperature=1.0, min_p=0.3), {1, 2}),
        (SamplingParams(temperature=1.0, top_p=0.5), {1}),
        (SamplingParams(temperature=1.0, top_p=0.9), {0, 1, 2}),
        (SamplingParams(temperature=1e-9), {1}),
    ],
)
def test_the_rows_cuts_apply_to_the_draft_law(params: SamplingParams, kept: set[int]) -> None:
    law = law_of(params)
    assert set(law.ids.tolist()) == kept
    assert law.probabilities.sum() == pytest.approx(1.0)


def test_the_law_is_restricted_to_mapped_tokens_and_the_best_candidates() -> None:
    law = law_of(WARM, None, ints([7, NO_ID, 9, 8, NO_ID]))
    assert dict(zip(law.ids.tolist(), law.draft_ids.tolist(), strict=True)) == {9: 2, 7: 0, 8: 3}
    assert law_of(WARM, DraftHeat(max_candidates=2)).ids.tolist() == [1, 2]
    assert len(law_of(WARM, DraftHeat(max_candidates=2), ints([0, NO_ID, NO_ID, 3, 4])).ids) == 0


def test_greedy_rows_and_cold_drafters_draft_the_best() -> None:
    assert is_deterministic(SamplingParams(temperature=0.0), DraftHeat(temperature=1.0))
    assert is_deterministic(WARM, DraftHeat(temperature=0.0))
    assert not is_deterministic(WARM, DraftHeat())
    assert [guess.token for guess in best(law_of(), 2)] == [1, 2]


def test_the_race_names_the_tokens_the_target_would_choose_first() -> None:
    """With the target's law as draft law, the first name is the target's own choice, every time."""
    law = law_of()
    by_id = np.argsort(law.ids)
    for seed in range(200):
        noise = GumbelNoise(seed, 0)
        named = [guess.token for guess in race(law, 5, noise, position=11)]
        weights = law.probabilities[by_id].copy()
        for token in named:
            assert noise.choose(weights, ints(range(5)), position=11, stream=0) == token
            weights[token] = 0.0


def test_draws_without_replacement_have_the_reported_law() -> None:
    law = law_of()
    seen: dict[tuple[int, ...], float] = {}
    for chance, drawn in outcomes(lambda noise: tuple(g.token for g in draws(law, 2, noise, position=4, first_node=0))):
        seen[drawn] = seen.get(drawn, 0.0) + chance
    p = as_vector(law)
    expected = {(a, b): p[a] * p[b] / (1 - p[a]) for a in range(5) for b in range(5) if a != b}
    assert seen == pytest.approx(expected)


def test_draws_end_when_the_law_is_used_up() -> None:
    law = law_of(SamplingParams(temperature=1.0, top_k=2))
    assert sorted(g.token for g in draws(law, 5, GumbelNoise(1, 0), position=4, first_node=0)) == [1, 2]
