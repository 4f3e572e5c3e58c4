"""The default rule: the target chooses with keyed noise, and drafts only foretell the choice.

At every node the walk reaches, z = argmax(log p + G), G keyed by seed, choice, position and token. If z was
drafted, descend, else stop; z is emitted either way. So the output is a function of p and the noise alone:
it is plain decoding's, whatever the drafter does (Daliri et al., arXiv 2408.07978).
"""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import RACE
from paradraft.verify.tree import RowTree, Shape, Walk


class CoupledRule:
    """Exact, for any tree; a seed gives the same tokens with every drafter, and with none."""

    name = "coupled"
    is_exact = True
    shape = Shape.TREE
    reads_draft_laws = False
    is_greedy_only = False
    is_coupled = True

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Follow the target's own choices as long as they were drafted."""
        return tree.follow(lambda node, position: draw(law(node), noise, position))


def draw(p: Law, noise: Noise, position: int) -> int:
    """Return the token that a law and the noise of a position choose."""
    return p.token(noise.choose(p.probabilities, p.ids, position=position, stream=RACE))
