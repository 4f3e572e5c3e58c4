"""Weighs what came after a context of several lengths: longer ones first, each for what the longer ones leave.

With c_n(t) of the c_n times that the last n tokens were seen going on with t, D a discount that grows with the count,
and P of the next shorter context,
    P_n(t) = max(c_n(t) - D(c_n(t)), 0) / c_n + left_n * P(t),   left_n = 1 - sum of the first term
(interpolated absolute discounting, modified after Chen and Goodman, 1998).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ENOUGH = 0.02  # what is left of certainty below which shorter contexts are not asked

# How often a context was seen, its continuations with their counts, and what is taken off counts of 0, 1, 2 and more.
Seen = tuple[int, Iterable[tuple[int, int]], Sequence[float]]


def interpolated(found: Sequence[Seen]) -> tuple[dict[int, float], float]:
    """Return token -> chance, and what is left of certainty; found are the contexts known, the shortest first."""
    shares: dict[int, float] = {}
    mass = 1.0
    for total, continuations, discounts in reversed(found):
        scale = mass / total
        for token, count in continuations:
            part = (count - discounts[count if count < 3 else 3]) * scale
            mass -= part
            shares[token] = shares.get(token, 0.0) + part
        if mass < ENOUGH:
            break
    return shares, mass
