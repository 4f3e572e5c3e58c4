"""Marginals become laws: temperature, cuts, correction, confidence."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.neural.guesses import NeuralGuesses
from paradraft.drafters.neural.law import slot_law
from paradraft.nets.serving.rounds import Marginals

GREEDY, WARM = SamplingParams(temperature=0.0), SamplingParams(temperature=0.5)
VOCAB, KEPT = 12, 5


class TableCorrection:
    """Adds a bias by the token before, for all tokens."""

    def __init__(self, table: FloatArray, ids: np.ndarray) -> None:
        self.table, self.ids = table, ids

    def bias(self, row: int, slot: int, previous: int) -> FloatArray:
        return self.table[previous][self.ids[row, slot]]


class FixedConfidence:
    def chance(self, row: int, slot: int, previous: int) -> float:
        return 0.9 - 0.1 * slot


def said(heat: float = 1.0, count: int = KEPT, seed: int = 0, slots: int = 3, **heads) -> tuple[Marginals, np.ndarray]:
    """Return marginals with `count` candidates and the logits of the whole vocabulary [slots, V]."""
    logits = (np.random.default_rng(seed).standard_normal((1, slots, VOCAB)) * 2).astype(np.float32)
    ids = np.argsort(-logits, axis=-1)[..., :count].astype(np.int32)
    marginals = Marginals(
        ids=ids,
        logits=np.take_along_axis(logits, ids, axis=-1),
        log_total=np.log(np.exp(logits / heat).sum(-1)).astype(np.float32),
        **heads,
    )
    return marginals, logits[0]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize(("params", "heat"), [(GREEDY, 1.0), (WARM, 0.5)], ids=["greedy", "warm"])
def test_probabilities_are_those_of_the_whole_vocabulary(params: SamplingParams, heat: float):
    marginals, logits = said(heat)
    law = slot_law(marginals, (0, 1), 0, params)
    np.testing.assert_allclose(law.probabilities, softmax(logits[1] / heat)[law.ids], rtol=1e-5)
    assert law.rest == pytest.approx(1.0 - law.probabilities.sum())
    assert (np.diff(law.probabilities) <= 0).all()


def test_a_correction_turns_the_order_around_and_leaves_the_rest_its_weight():
    marginals, logits = said()
    table = (np.random.default_rng(3).standard_normal((VOCAB, VOCAB)) * 3).astype(np.float32)
    bent = Marginals(
        ids=marginals.ids,
        logits=marginals.logits,
        log_total=marginals.log_total,
        correction=TableCorrection(table, marginals.ids),
    )
    law = slot_law(bent, (0, 0), 7, GREEDY)
    corrected = logits[0].copy()
    corrected[marginals.ids[0, 0]] += table[7][marginals.ids[0, 0]]
    np.testing.assert_allclose(law.probabilities, softmax(corrected)[law.ids], rtol=1e-5)
    assert law.ids.tolist() == sorted(law.ids.tolist(), key=lambda token: -corrected[token])
    assert law.ids.tolist() != marginals.ids[0, 0].tolist()


@pytest.mark.parametrize(
    "cut",
    [{"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.2}, {"top_k": 4, "top_p": 0.7}, {"top_k": VOCAB}, {"top_p": 0.999}],
    ids=str,
)
def test_the_rows_cuts_apply_as_they_do_to_the_target(cut: dict):
    params = SamplingParams(temperature=1.0, **cut)
    marginals, logits = said(count=VOCAB)
    law = slot_law(marginals, (0, 0), 0, params)
    full = np.sort(softmax(logits[0]))[::-1]
    kept = full[: cut.get("top_k", VOCAB)]
    kept = kept[kept >= cut.get("min_p", 0.0) * kept[0]]
    sums = np.cumsum(kept) / kept.sum()
    kept = kept[: int(np.searchsorted(sums, cut.get("top_p", 1.0))) + 1]
    np.testing.assert_allclose(law.probabilities, kept / kept.sum(), rtol=1e-4)


def test_a_draw_is_among_the_candidates_only():
    marginals, _ = said()
    law = slot_law(marginals, (0, 0), 0, SamplingParams(temperature=1.0))
    drawn = law.drawn_from()
    assert drawn.probabilities.sum() == pytest.approx(1.0)
    assert law.rest > 0.0


def test_shares_are_told_below_any_path_and_end_behind_the_last_slot():
    marginals, _ = said()
    guesses = NeuralGuesses(marginals, 0, 4, GREEDY)
    state = guesses.root()
    for slot in range(3):
        shares = guesses.shares(state)
        assert list(shares) == marginals.ids[0, slot].tolist()
        assert sum(shares.values()) < 1.0
        assert guesses.source_of(state, next(iter(shares))) == 1
        assert guesses.source_of(state, 999) == 0
        state = guesses.descend(state, 11)
    assert state is None


def test_a_correction_reads_the_branchs_own_token():
    marginals, _ = said(count=VOCAB)
    table = (np.random.default_rng(3).standard_normal((VOCAB, VOCAB)) * 3).astype(np.float32)
    bent = Marginals(
        ids=marginals.ids,
        logits=marginals.logits,
        log_total=marginals.log_total,
        correction=TableCorrection(table, marginals.ids),
    )
    guesses = NeuralGuesses(bent, 0, 4, GREEDY)
    left, right = (guesses.descend(guesses.root(), token) for token in (2, 3))
    assert guesses.shares(left) != guesses.shares(right)
    straight = NeuralGuesses(marginals, 0, 4, GREEDY)
    left, right = (straight.descend(straight.root(), token) for token in (2, 3))
    assert straight.shares(left) == straight.shares(right)


def test_the_confidence_head_says_how_sure_the_best_draft_is():
    marginals, logits = said(confidence=FixedConfidence())
    guesses = NeuralGuesses(marginals, 0, 4, GREEDY)
    shares = list(guesses.shares(guesses.root()).values())
    plain = softmax(logits[0])[marginals.ids[0, 0]]
    assert shares[0] == pytest.approx(0.9)
    assert shares[2] / shares[1] == pytest.approx(plain[2] / plain[1], rel=1e-4)
    assert sum(shares) <= 1.0
    warm = NeuralGuesses(marginals, 0, 4, SamplingParams(temperature=1.0))
    assert next(iter(warm.shares(warm.root()).values())) == pytest.approx(plain[0], rel=1e-4)


class FixedNoise(Coupling):
    """Favours one token at one depth."""

    def __init__(self, token: int, depth: int) -> None:
        self.token, self.depth = token, depth

    def gumbel(self, tokens: list[int], depth: int) -> list[float]:
        return [20.0 if (token, depth) == (self.token, self.depth) else 0.0 for token in tokens]


def test_an_unlikely_candidate_that_the_noise_favours_is_told():
    draw = np.random.default_rng(0)
    ids = np.tile(np.arange(40, dtype=np.int32), (1, 2, 1))
    logits = -np.sort(-draw.standard_normal((1, 2, 40)).astype(np.float32))
    marginals = Marginals(ids=ids, logits=logits, log_total=np.log(np.exp(logits).sum(-1)).astype(np.float32))
    warm = SamplingParams(temperature=1.0)
    plain = NeuralGuesses(marginals, 0, 4, warm)
    coupled = NeuralGuesses(marginals, 0, 4, warm, coupling=FixedNoise(token=33, depth=1))
    assert list(plain.shares(plain.root())) == list(range(16)) == list(coupled.shares(coupled.root()))
    second = coupled.descend(coupled.root(), 0)
    assert list(coupled.shares(second)) == [*range(15), 33]


def test_changing_an_answer_changes_no_later_one():
    marginals, _ = said()
    guesses = NeuralGuesses(marginals, 0, 4, GREEDY)
    before = guesses.shares(guesses.root())
    guesses.shares(guesses.root()).clear()
    assert guesses.shares(guesses.root()) == before


def test_cold_logits_of_any_size_give_finite_laws():
    ids = ints([3, 1]).reshape(1, 1, 2)
    marginals = Marginals(
        ids=ids,
        logits=np.array([[[80.0, -900.0]]], dtype=np.float32),
        log_total=np.array([[80.0]], dtype=np.float32) / np.float32(0.01),
    )
    law = slot_law(marginals, (0, 0), 0, SamplingParams(temperature=0.01))
    assert law.probabilities[0] == pytest.approx(1.0)
    assert np.isfinite(law.probabilities).all()
