"""Chain rejection (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).

Accept draft y with probability min(1, p(y) / q(y)); at the first rejection draw from max(p - q, 0), normalised;
after the last acceptance draw from p. A draft chosen deterministically has q = a point: accept with p(y).
"""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import ACCEPT, RESIDUAL
from paradraft.verify.residual import likelihood_ratio, residual
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk


class RejectionRule:
    """Exact in law for chains whose draft laws are the ones really drawn from."""

    name = "rejection"
    is_exact = True
    shape = Shape.CHAIN
    reads_draft_laws = True
    is_greedy_only = False
    is_coupled = False

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Test the drafts one by one; raise ProtocolError if the tree branches."""
        path: list[int] = []
        p = law(ROOT)
        for node in tree.chain(self.name):
            q = tree.draft_law(node)
            ratio = likelihood_ratio(p, q, tree.tokens[node])
            # Without a ratio the node is not what it claims to be; leaving it unread keeps p.
            if ratio is None:
                break
            if not noise.flip(min(1.0, ratio), position=tree.start + len(path), stream=ACCEPT):
                p = residual(p, q)
                break
            path.append(node)
            p = law(node)
        index = noise.choose(p.probabilities, p.ids, position=tree.start + len(path), stream=RESIDUAL)
        return Walk(path=tuple(path), token=p.token(index))
