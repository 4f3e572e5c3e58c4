"""The relaxed ratio rule: a draft stands while p / q >= alpha. Lossy, and labelled so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from paradraft.core.errors import ConfigError
from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import RACE
from paradraft.verify.tree import ROOT, RowTree, Shape, Walk


@dataclass(frozen=True)
class RatioRule:
    """Not exact: tokens that the drafter likes come too often. A draft without a law counts as q = 1.

    Smaller alpha accepts more and strays further. At temperature 0 the text is plain decoding's.
    """

    alpha: float = 0.6
    name: ClassVar[str] = "ratio"
    is_exact: ClassVar[bool] = False
    shape: ClassVar[Shape] = Shape.TREE
    reads_draft_laws: ClassVar[bool] = True
    is_greedy_only: ClassVar[bool] = False
    is_coupled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check alpha; above 1 even a greedy draft that is right could fall."""
        if not 0.0 < self.alpha <= 1.0:
            raise ConfigError(f"alpha={self.alpha!r} is not allowed.", remedy="Use a number above 0 and at most 1.")

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Take the first child whose ratio suffices, until none does; then the target draws."""
        path: list[int] = []
        node: int | None = ROOT
        while node is not None:
            p = law(node)
            node = next((child for child in tree.children(node) if self._stands(tree, child, p)), None)
            if node is not None:
                path.append(node)
        index = noise.choose(p.probabilities, p.ids, position=tree.start + len(path), stream=RACE)
        return Walk(path=tuple(path), token=p.token(index))

    def _stands(self, tree: RowTree, node: int, p: Law) -> bool:
        token = tree.tokens[node]
        drawn = tree.draft_law(node).probability(token)
        return drawn > 0.0 and p.probability(token) >= self.alpha * drawn
