"""The distribution of the next token: raw logits and a row's sampling parameters in, a Law out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.verify.processors import adjust
from paradraft.verify.ranking import Indices, Ranking

_COLDEST = 1e-30  # keeps a temperature above 0 from becoming 0 in fp32
_HEADS = (128, 2048)  # how many ids to rank before falling back on a slower search for the end of top-p


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Law:
    """A distribution over tokens: `probabilities` [n] of `ids` [n], ascending; ids None means 0 .. n-1."""

    ids: IntArray | None
    probabilities: DoubleArray

    @staticmethod
    def point(token: int) -> Law:
        """Return the law that always gives this token."""
        return Law(ids=ints([token]), probabilities=np.ones(1))

    @property
    def is_point(self) -> bool:
        """Whether one token has all the probability."""
        return len(self.probabilities) == 1

    def token(self, index: int) -> int:
        """Return the token at an index of probabilities."""
        return index if self.ids is None else int(self.ids[index])

    def probability(self, token: int) -> float:
        """Return the probability of a token, 0.0 outside the support."""
        index = token if self.ids is None else int(np.searchsorted(self.ids, token))
        if not 0 <= index < len(self.probabilities) or self.token(index) != token:
            return 0.0
        return float(self.probabilities[index])


def law_of(logits: FloatArray, sampling: RowSampling, history: IntArray) -> Law:
    """Return the law of the next token from fp32 logits [V], in this fixed order.

    Penalties, logit_bias and min_tokens (history: prompt and every token before this one); temperature; top-k;
    min-p; top-p. Tokens rank by (-logit, id), so ties go to the lowest id. Temperature 0 is a point at the best.
    Raises ProtocolError for logits that are not finite and when min_tokens leaves no token (see check_sampling).
    """
    values = adjust(logits, sampling, history)
    ranking = Ranking(values)
    if not (np.isfinite(logits.min()) and np.isfinite(ranking.peak if values is logits else logits.max())):
        raise ProtocolError("The target's logits hold NaN or infinity.", remedy="Check its weights and dtype.")
    if ranking.peak == -np.inf:
        raise ProtocolError("min_tokens leaves no token to draw.", remedy="Refuse such a request (check_sampling).")
    if sampling.params.is_greedy:
        return Law.point(int(values.argmax()))
    weights = _weights(values, ranking.peak, sampling.params.temperature)
    return _normalised(_kept(ranking, weights, sampling.params), weights)


def _weights(values: FloatArray, peak: np.floating[Any], temperature: float) -> FloatArray:
    """Return exp((values - peak) / temperature), [V], in fp32: 1 at the peak."""
    weights: FloatArray = values - peak
    if temperature != 1.0:
        with np.errstate(over="ignore"):
            weights /= np.float32(max(temperature, _COLDEST))
    return np.exp(weights, out=weights)


def _kept(ranking: Ranking, weights: FloatArray, params: SamplingParams) -> IntArray | None:
    """Return the ids that top-k, min-p and top-p leave, ascending; None for all.

    Each cut leaves a prefix of the ranking, and top-p measures mass among what the cuts before it left.
    """
    size = len(weights)
    limit = min(params.top_k or size, size)
    if params.min_p > 0.0:
        limit = min(limit, int(np.count_nonzero(weights >= np.float32(params.min_p))))
    if params.top_p < 1.0:
        head = _nucleus(ranking, weights, limit, params.top_p)
    elif limit < size:
        head = ranking.largest(limit)
    else:
        return None
    return np.sort(ints(head))


def _nucleus(ranking: Ranking, weights: FloatArray, limit: int, top_p: float) -> Indices:
    """Return the shortest prefix of the `limit` best ids with at least top_p of their mass, in any order."""
    if limit < len(weights):
        head = ranking.largest(limit)
        sums = np.cumsum(weights[head], dtype=np.float64)
        return head[: int(np.searchsorted(sums, top_p * sums[-1])) + 1]
    # Summed pairwise in fp32, the whole is as exact as its terms are.
    needed = top_p * float(weights.sum())
    for count in _HEADS:
        head = ranking.largest(count)
        sums = np.cumsum(weights[head], dtype=np.float64)
        if sums[-1] >= needed:
            return head[: int(np.searchsorted(sums, needed)) + 1]
    return ranking.covering(weights, needed)


def _normalised(ids: IntArray | None, weights: FloatArray) -> Law:
    probabilities: DoubleArray = (weights if ids is None else weights[ids]).astype(np.float64)
    probabilities /= probabilities.sum()
    return Law(ids=ids, probabilities=probabilities)
