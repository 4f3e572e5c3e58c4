"""The distribution of the next token: raw logits and a row's sampling parameters in, a Law out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from paradraft.core.arrays import BoolArray, DoubleArray, FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.verify.processors import adjust
from paradraft.verify.ranking import Indices, Ranking

_Weigh = Callable[[FloatArray], FloatArray]

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


def law_of(logits: FloatArray, sampling: RowSampling, history: IntArray, allowed: BoolArray | None = None) -> Law:
    """Return the law of the next token from fp32 logits [V], in this fixed order.

    Penalties, logit_bias, min_tokens (history: prompt and every token before this one) and grammar (allowed [V]: what
    it lets follow, None for everything); temperature; top-k; min-p; top-p. Tokens rank by (-logit, id), so ties go to
    the lowest id. Temperature 0 is a point at the best. Raises ProtocolError for logits that are not finite and when
    min_tokens leaves no token (see check_sampling).
    """
    values = adjust(logits, sampling, history, allowed)
    ranking = Ranking(values)
    if not (np.isfinite(logits.min()) and np.isfinite(ranking.peak if values is logits else logits.max())):
        raise ProtocolError("The target's logits hold NaN or infinity.", remedy="Check its weights and dtype.")
    if ranking.peak == -np.inf:
        raise ProtocolError("min_tokens leaves no token to draw.", remedy="Refuse such a request (check_sampling).")
    if sampling.params.is_greedy:
        return Law.point(int(values.argmax()))
    return _sampled(ranking, sampling.params)


def _sampled(ranking: Ranking, params: SamplingParams) -> Law:
    """Return the law after temperature and the cuts; each cut leaves a prefix of the ranking."""
    weigh = partial(_weights, peak=ranking.peak, temperature=params.temperature)
    if params.top_k or params.min_p > 0.0:
        ids = _survivors(ranking, weigh, params)
        if params.top_p < 1.0:
            sums = np.cumsum(weigh(ranking.values[ids]), dtype=np.float64)
            ids = ids[: int(np.searchsorted(sums, params.top_p * sums[-1])) + 1]
    elif params.top_p < 1.0:
        ids = _nucleus(ranking, weigh, params.top_p)
    else:
        return _normalised(None, weigh(ranking.values))
    ascending = np.sort(ints(ids))
    return _normalised(ascending, weigh(ranking.values[ascending]))


def _weights(values: FloatArray, peak: np.floating[Any], temperature: float) -> FloatArray:
    """Return exp((values - peak) / temperature), [n], in fp32: 1 at the peak."""
    weights: FloatArray = values - peak
    if temperature != 1.0:
        with np.errstate(over="ignore"):
            weights /= np.float32(max(temperature, _COLDEST))
    return np.exp(weights, out=weights)


def _survivors(ranking: Ranking, weigh: _Weigh, params: SamplingParams) -> Indices:
    """Return the ids that top-k and min-p leave, in ranking order."""
    size = len(ranking.values)
    for count in (params.top_k,) if params.top_k else (*_HEADS, size):
        ids = ranking.largest(count)
        kept = int(np.count_nonzero(weigh(ranking.values[ids]) >= np.float32(params.min_p)))
        if kept < len(ids):
            break
    return ids[:kept]


def _nucleus(ranking: Ranking, weigh: _Weigh, top_p: float) -> Indices:
    """Return the shortest prefix of the ranking with at least top_p of all mass, in any order."""
    weights = weigh(ranking.values)
    needed = top_p * float(weights.sum())  # pairwise in fp32: as exact as its terms
    for count in _HEADS:
        head = ranking.largest(count)
        sums = np.cumsum(weights[head], dtype=np.float64)
        if sums[-1] >= needed:
            return head[: int(np.searchsorted(sums, needed)) + 1]
    return ranking.covering(weights, needed)


def _normalised(ids: IntArray | None, weights: FloatArray) -> Law:
    probabilities: DoubleArray = weights.astype(np.float64)
    probabilities /= probabilities.sum()
    return Law(ids=ids, probabilities=probabilities)
