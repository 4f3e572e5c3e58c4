"""Block verification of a chain (Sun et al., arXiv 2403.10444): drafts are judged together, not one by one.

With y_1 .. y_K the drafts and p_i, q_i the laws at y_i:
    P_0 = 1,  P_i = min(P_{i-1} p_i(y_i) / q_i(y_i), 1)          the chance that at least y_1 .. y_i stand
    R_i = sum over x of max(P_i p_{i+1}(x) - q_{i+1}(x), 0)
    h_i = R_i / (R_i + 1 - P_i) for i < K,  h_K = P_K
The longest i whose coin of h_i falls well is accepted, then the next token comes from
max(P_i p_{i+1} - q_{i+1}, 0), normalised (p_{K+1} for i = K). docs/exactness.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import ACCEPT, RESIDUAL, lane
from paradraft.verify.residual import likelihood_ratio, residual, residual_mass
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk


class BlockRule:
    """Exact in law for chains; never accepts fewer tokens on average than chain rejection."""

    name = "block"
    is_exact = True
    shape = Shape.CHAIN
    reads_draft_laws = True
    is_greedy_only = False
    is_coupled = False

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Judge the whole chain; raise ProtocolError if the tree branches."""
        nodes = tree.chain(self.name)
        laws, draft_laws, standing = _forward(tree, nodes, law)
        length = len(standing) - 1
        # Coins are keyed by the step's start: those beyond the accepted length shaped it, and a later step must
        # not meet them again.
        while length > 0:
            chance = _stop_chance(length, standing, laws, draft_laws)
            if noise.flip(chance, position=tree.start, stream=lane(ACCEPT, length)):
                break
            length -= 1
        p = laws[length]
        if length < len(draft_laws):
            p = residual(p, draft_laws[length], standing[length])
        index = noise.choose(p.probabilities, p.ids, position=tree.start + length, stream=RESIDUAL)
        return Walk(path=tuple(nodes[:length]), token=p.token(index))


def _forward(tree: RowTree, nodes: list[int], law: Callable[[int], Law]) -> tuple[list[Law], list[Law], list[float]]:
    """Return p_1 .. p_{k+1}, q_1 .. q_k and P_0 .. P_k; k is K, or less where no further draft can stand."""
    laws, draft_laws, standing = [law(ROOT)], [], [1.0]
    for node in nodes:
        q = tree.draft_law(node)
        ratio = likelihood_ratio(laws[-1], q, tree.tokens[node])
        if ratio is None:
            break
        draft_laws.append(q)
        if ratio == 0.0:
            break
        standing.append(min(standing[-1] * ratio, 1.0))
        laws.append(law(node))
    return laws, draft_laws, standing


def _stop_chance(length: int, standing: list[float], laws: list[Law], draft_laws: list[Law]) -> float:
    """Return h at a length."""
    here = standing[length]
    if length == len(draft_laws):
        return here
    left = residual_mass(laws[length], draft_laws[length], here)
    return left / (left + 1.0 - here) if left > 0.0 else 0.0
