"""Arithmetic of rejection: how often a draft stands under the target's law p, and what its fall leaves of p."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import BoolArray, DoubleArray
from paradraft.verify.law import Law


def likelihood_ratio(p: Law, q: Law, token: int) -> float | None:
    """Return p / q at a token, None where q gives it no probability: it cannot have been drawn from q."""
    drawn = q.probability(token)
    return p.probability(token) / drawn if drawn > 0.0 else None


def residual(p: Law, q: Law, scale: float = 1.0) -> Law:
    """Return the law proportional to max(scale * p - q, 0), over p's support; p itself if nothing is left.

    Nothing is left only by rounding: a draft drawn from q = p is rejected with probability 0.
    """
    rest = _excess(p, q, scale)
    total = float(rest.sum())
    return Law(ids=p.ids, probabilities=rest / total) if total > 0.0 else p


def residual_mass(p: Law, q: Law, scale: float) -> float:
    """Return the sum of max(scale * p - q, 0)."""
    return float(_excess(p, q, scale).sum())


def without(law: Law, tokens: list[int]) -> Law:
    """Return the law given that none of these tokens came; all zeros if it gives no others."""
    if not tokens:
        return law
    rest = law.probabilities.copy()
    rest[np.isin(np.arange(len(rest)) if law.ids is None else law.ids, tokens)] = 0.0
    total = float(rest.sum())
    return Law(ids=law.ids, probabilities=rest / total if total > 0.0 else rest)


def _excess(p: Law, q: Law, scale: float) -> DoubleArray:
    """Return max(scale * p - q, 0) over p's support; q may give tokens that p does not know."""
    rest = scale * p.probabilities
    if q.ids is None:
        rest -= q.probabilities if p.ids is None else q.probabilities[p.ids]
        return np.maximum(rest, 0.0, out=rest)
    places = q.ids if p.ids is None else np.searchsorted(p.ids, q.ids)
    is_shared: BoolArray = places < len(rest)
    if p.ids is not None:
        is_shared[is_shared] = p.ids[places[is_shared]] == q.ids[is_shared]
    rest[places[is_shared]] -= q.probabilities[is_shared]
    return np.maximum(rest, 0.0, out=rest)
