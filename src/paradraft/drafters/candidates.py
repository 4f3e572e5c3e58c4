"""What a draft model says comes next, and which of it to draft.

Three ways to choose: the best (greedy rows), the winners of the target's own race (the coupled rule), or draws from
the reported law (sampling rules).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.core.ports import Noise, Scores
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.vocabulary import NO_ID
from paradraft.verify.noise import DRAFT, RACE, lane

_COLDEST = 1e-30  # keeps quotients finite


class RaceNoise(Noise, Protocol):
    """Noise that also shows the Gumbel variables behind its choices."""

    def gumbel(self, ids: IntArray, *, position: int, stream: int = RACE) -> DoubleArray:
        """Return the Gumbel variable of each id, [len(ids)]."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftHeat:
    """How a draft law is formed from logits.

    temperature None: the row's own. eos_temperature is for the end tokens alone, None: the same as the others'.
    A logit l becomes (l - largest) / temperature of its token, so a hotter end token is one that is drafted earlier.
    Only the max_candidates best tokens are looked at; the law is exact on them.
    """

    temperature: float | None = None
    eos_temperature: float | None = None
    eos_ids: tuple[int, ...] = ()  # the target's
    max_candidates: int = 64


@dataclass(frozen=True, slots=True, eq=False)
class DraftLaw:
    """A distribution over the tokens that both models have, the most probable first."""

    draft_ids: IntArray
    ids: IntArray  # the same tokens in the target's vocabulary
    probabilities: DoubleArray


@dataclass(frozen=True, slots=True)
class Guess:
    """A token to draft, in both vocabularies, and how likely it is to stand if its parent does."""

    token: int
    draft_token: int
    confidence: float


def draft_law(scores: Scores, index: int, params: SamplingParams, heat: DraftHeat, to_target: IntArray) -> DraftLaw:
    """Return the drafter's law at a scored position; empty if none of its best tokens is one of the target's.

    The row's top-k, min-p and top-p apply, so that the drafter does not offer what the target would cut.
    """
    draft_ids, logits = scores.top(index, heat.max_candidates)
    ids = to_target[draft_ids]
    is_mapped = ids != NO_ID
    if not is_mapped.all():
        draft_ids, logits, ids = draft_ids[is_mapped], logits[is_mapped], ids[is_mapped]
    if not len(ids):
        return DraftLaw(draft_ids, ids, np.zeros(0))
    values = (logits - logits[0]).astype(np.float64) / _temperatures(ids, params, heat)
    order = np.argsort(-values, kind="stable")
    weights = np.exp(values[order] - values[order[0]])
    kept = order[: num_kept(weights, params)]
    weights = weights[: len(kept)]
    return DraftLaw(draft_ids[kept], ids[kept], weights / weights.sum())


def is_deterministic(params: SamplingParams, heat: DraftHeat) -> bool:
    """Whether the row drafts the best tokens, without noise."""
    return params.is_greedy or heat.temperature == 0.0


def best(law: DraftLaw, count: int) -> list[Guess]:
    """Return the most probable tokens."""
    return [_guess(law, place, float(law.probabilities[place])) for place in range(min(count, len(law.ids)))]


def race(law: DraftLaw, count: int, noise: RaceNoise, *, position: int) -> list[Guess]:
    """Return the tokens that the target would choose first if its law were this one: the largest log q + G.

    G is the noise of the target's own choice, so drafter and target tend to agree on the winner (coupling by
    Gumbel noise: Daliri et al., arXiv 2408.07978). Confidences are a softmax over log q + G.
    """
    keys = np.log(law.probabilities) + noise.gumbel(law.ids, position=position, stream=RACE)
    shares = np.exp(keys - keys.max())
    shares /= shares.sum()
    order = np.argsort(-keys, kind="stable")[:count]
    return [_guess(law, place, float(shares[place])) for place in order.tolist()]


def draws(law: DraftLaw, count: int, noise: Noise, *, position: int, first_node: int) -> list[Guess]:
    """Draw tokens without replacement; node i of a row draws in a lane of its own at the step's first position."""
    weights = law.probabilities.copy()
    guesses: list[Guess] = []
    while len(guesses) < count and weights.any():
        lane_of = lane(DRAFT, first_node + len(guesses))
        place = noise.choose(weights, law.ids, position=position, stream=lane_of)
        guesses.append(_guess(law, place, float(law.probabilities[place])))
        weights[place] = 0.0
    return guesses


def _guess(law: DraftLaw, place: int, confidence: float) -> Guess:
    return Guess(int(law.ids[place]), int(law.draft_ids[place]), confidence)


def _temperatures(ids: IntArray, params: SamplingParams, heat: DraftHeat) -> DoubleArray | float:
    if is_deterministic(params, heat):
        return 1.0
    temperature = max(params.temperature if heat.temperature is None else heat.temperature, _COLDEST)
    if heat.eos_temperature is None:
        return temperature
    return np.where(np.isin(ids, ints(heat.eos_ids)), max(heat.eos_temperature, _COLDEST), temperature)


def num_kept(weights: DoubleArray, params: SamplingParams) -> int:
    """Return how many of the best tokens, weights [n] falling from 1, the row's cuts leave; at least 1."""
    count = int(np.count_nonzero(weights))
    count = min(params.top_k or count, count)
    if params.min_p > 0.0:
        count = min(count, int(np.count_nonzero(weights >= params.min_p)))
    if params.top_p < 1.0:
        sums = np.cumsum(weights[:count])
        count = int(np.searchsorted(sums, params.top_p * sums[-1])) + 1
    return max(min(count, len(weights)), 1)
