"""The rule of temperature 0: descend while the most probable token was drafted."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk


class GreedyRule:
    """Exact for greedy requests. Sampled ones are refused: taking the best token is not sampling."""

    name = "greedy"
    is_exact = True
    shape = Shape.TREE
    reads_draft_laws = False
    is_greedy_only = True
    is_coupled = False

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:  # noqa: ARG002 - nothing is drawn
        """Follow the point laws; raise ProtocolError at a law that leaves a choice."""
        path: list[int] = []
        node = ROOT
        while True:
            p = law(node)
            if not p.is_point:
                raise ProtocolError(
                    "The greedy rule cannot sample.", remedy="Set temperature to 0 or use the rule 'coupled'."
                )
            child = tree.child(node, p.token(0))
            if child is None:
                return Walk(path=tuple(path), token=p.token(0))
            path.append(child)
            node = child
