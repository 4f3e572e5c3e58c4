"""Typical acceptance (Cai et al., Medusa, arXiv 2401.10774). Lossy, and labelled so.

A draft x stands if p(x) > min(0.3, 0.09 exp(-H(p))), H the entropy of p in nats; of all paths whose nodes stand,
the longest is taken, the first of them on ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import RACE
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk

_CEILING = 0.3
_SCALE = 0.09


class TypicalRule:
    """Not exact: whatever is plausible enough stands. At temperature 0 the text is plain decoding's."""

    name = "typical"
    is_exact = False
    shape = Shape.TREE
    reads_draft_laws = False
    is_greedy_only = False
    is_coupled = False

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Take the longest plausible path; then the target draws."""
        path = _longest(tree, law, ROOT)
        p = law(path[-1] if path else ROOT)
        index = noise.choose(p.probabilities, p.ids, position=tree.start + len(path), stream=RACE)
        return Walk(path=tuple(path), token=p.token(index))


def threshold(p: Law) -> float:
    """Return the probability that a draft must exceed under this law."""
    positive = p.probabilities[p.probabilities > 0.0]
    entropy = -float(positive @ np.log(positive))
    return min(_CEILING, _SCALE * math.exp(-entropy))


def _longest(tree: RowTree, law: Callable[[int], Law], node: int) -> list[int]:
    children = tree.children(node)
    if not children:
        return []
    p = law(node)
    bar = threshold(p)
    best: list[int] = []
    for child in children:
        if p.probability(tree.tokens[child]) > bar:
            path = [child, *_longest(tree, law, child)]
            if len(path) > len(best):
                best = path
    return best
