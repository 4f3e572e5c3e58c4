"""From marginals to a law of one draft, given the token before. Legend: C candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import DoubleArray, IntArray
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftLaw, num_kept
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.guesses import MAX_SHARES
from paradraft.nets.serving.rounds import Marginals

_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class SlotLaw:
    """The candidates of one slot, the likeliest first, and the chance that it is none of them."""

    ids: IntArray  # [C]
    probabilities: DoubleArray  # [C] falling
    rest: float

    def drawn_from(self) -> DraftLaw:
        """Return the law of a draw among the candidates only."""
        return DraftLaw(self.ids, self.ids, self.probabilities / self.probabilities.sum())


def slot_law(marginals: Marginals, place: tuple[int, int], previous: int, params: SamplingParams) -> SlotLaw:
    """Return the law of (row, slot) if `previous` comes before, at the row's temperature and within its cuts.

    The correction is known for the candidates only; tokens outside keep their uncorrected weight.
    """
    row, slot = place
    heat = 1.0 if params.is_greedy else params.temperature
    logits = marginals.logits[row, slot].astype(np.float64)
    total = float(marginals.log_total[row, slot])
    plain = np.exp(logits / heat - total)
    rest = max(1.0 - float(plain.sum()), 0.0)
    bias = None if marginals.correction is None else marginals.correction.bias(row, slot, previous)
    weights = plain if bias is None else np.exp((logits + bias) / heat - total)
    order = np.argsort(-weights, kind="stable")
    weights = weights[order]
    whole = rest + float(weights.sum())
    if not params.is_greedy:
        weights, rest = _cut(weights, rest, params)
        whole = rest + float(weights.sum())
    return SlotLaw(marginals.ids[row, slot][order[: len(weights)]], weights / whole, rest / whole)


def told(law: SlotLaw, depth: int, coupling: Coupling | None) -> IntArray:
    """Return the places of at most MAX_SHARES candidates in falling probability, of a node at this depth.

    They are the likeliest or, where the target's noise is known, those it is likeliest to choose.
    """
    count = len(law.ids)
    if count <= MAX_SHARES or coupling is None:
        return np.arange(min(count, MAX_SHARES), dtype=np.int32)
    keys = np.log(np.maximum(law.probabilities, _TINY)) + coupling.gumbel(law.ids.tolist(), depth)
    return np.sort(np.argpartition(-keys, MAX_SHARES)[:MAX_SHARES]).astype(np.int32)


def _cut(weights: DoubleArray, rest: float, params: SamplingParams) -> tuple[DoubleArray, float]:
    """Return the weights that the row's top-k, min-p and top-p leave, and what they leave of the rest."""
    count = len(weights)
    if params.min_p > 0.0 or 0 < params.top_k <= count:
        kept = weights[: num_kept(weights / weights[0], params)]
        return kept, 0.0
    if params.top_p < 1.0:
        whole = rest + float(weights.sum())
        sums = np.cumsum(weights)
        if sums[-1] >= params.top_p * whole:
            return weights[: int(np.searchsorted(sums, params.top_p * whole)) + 1], 0.0
        return weights, params.top_p * whole - float(sums[-1])
    return weights, rest
