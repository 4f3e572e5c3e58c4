"""Recursive rejection over siblings (Miao et al., SpecInfer, arXiv 2305.09781).

Test the children in drafting order, each against what the rejections before it left of p:
accept y with probability min(1, p'(y) / q'(y)), else p' becomes max(p' - q', 0), normalised. q' is the child's own
law given that it differs from its elder siblings, which is what it was drawn from, with or without replacement.
A deterministic child has q' = a point.
"""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import ACCEPT, RESIDUAL, lane
from paradraft.verify.residual import likelihood_ratio, residual, without
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk


class RecursiveRule:
    """Exact in law for trees whose draft laws are the ones really drawn from, in drawing order."""

    name = "recursive"
    is_exact = True
    shape = Shape.TREE
    reads_draft_laws = True
    is_greedy_only = False
    is_coupled = False

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Descend as long as one of the children stands."""
        path: list[int] = []
        node = ROOT
        while True:
            position = tree.start + len(path)
            child, p = _test_children(tree, node, law(node), noise, position)
            if child is None:
                index = noise.choose(p.probabilities, p.ids, position=position, stream=RESIDUAL)
                return Walk(path=tuple(path), token=p.token(index))
            path.append(child)
            node = child


def _test_children(tree: RowTree, node: int, p: Law, noise: Noise, position: int) -> tuple[int | None, Law]:
    """Return the child that stands, if one does, and what the rejections left of p."""
    elders: list[int] = []
    for order, child in enumerate(tree.children(node)):
        token = tree.tokens[child]
        q = without(tree.draft_law(child), elders)
        elders.append(token)
        ratio = likelihood_ratio(p, q, token)
        # Without a ratio the node is not what it claims to be; leaving it unread keeps p.
        if ratio is None:
            continue
        if noise.flip(min(1.0, ratio), position=position, stream=lane(ACCEPT, order)):
            return child, p
        p = residual(p, q)
    return None, p
