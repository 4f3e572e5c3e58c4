"""A draft that branches where it is unsure: a path while positions are certain, a small tree at the first that is not.

The tree has at most 3 levels and 12 nodes: 3 candidates, 2 followers each, 3 more below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft
from paradraft.drafters.growth import Budget
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.trust import CEILING

LEVELS = ((3, 3), (2, 6), (1, 3))  # children per node, nodes of the level
TREE_NODES = sum(nodes for _, nodes in LEVELS)

IsUncertain = Callable[[Mapping[int, float], int], bool]  # of a position's shares and depth (0: the first)


@dataclass(frozen=True, slots=True)
class _Tip:
    """A node that may get children, -1 for the last known token."""

    node: int
    depth: int  # of its children, from 0
    confidence: float
    state: State


@dataclass(slots=True)
class UncertainTree:
    """One row's draft; its nodes deeper than `sure_depth` are at positions that were unsure (None: none is)."""

    guesses: Guesses
    budget: Budget
    is_uncertain: IsUncertain
    noise: Coupling | None = None
    trust: float = 1.0
    draft: Draft = field(default_factory=Draft)
    sure_depth: int | None = None
    num_asked: int = 0  # positions that were judged
    num_unsure: int = 0

    def grow(self) -> Draft:
        """Return the draft, an empty one if it does not pay; budget.width plays no part."""
        tip: _Tip | None = _Tip(-1, 0, 1.0, self.guesses.root())
        while tip is not None:
            shares = self.guesses.shares(tip.state) if tip.depth < self.budget.depth else {}
            if not shares:
                break
            if self._judge(shares, tip.depth):
                self._branch(tip)
                break
            tip = self._extend(tip)
        return self.draft.if_worthwhile(self.budget.price)

    def _judge(self, shares: Mapping[int, float], depth: int) -> bool:
        is_unsure = self.is_uncertain(shares, depth)
        self.num_asked += 1
        self.num_unsure += is_unsure
        return is_unsure

    def _extend(self, tip: _Tip) -> _Tip | None:
        """Add the best child; return None where the path ends."""
        [(confidence, token), *_] = self._offers(tip, 1)
        return self._add(tip, token, confidence)

    def _branch(self, root: _Tip) -> None:
        self.sure_depth = root.depth
        tips = [root]
        for width, most in LEVELS:
            offers = [(confidence, token, tip) for tip in tips for confidence, token in self._offers(tip, width)]
            offers.sort(key=lambda offer: offer[0], reverse=True)
            tips = [new for confidence, token, tip in offers[:most] if (new := self._add(tip, token, confidence))]

    def _offers(self, tip: _Tip, width: int) -> list[tuple[float, int]]:
        """Return the likeliest children as (confidence, token)."""
        if tip.depth >= self.budget.depth:
            return []
        shares = self.guesses.shares(tip.state)
        if self.noise is not None and shares:
            shares = self.noise.bend(shares, tip.depth)
        best = sorted(shares, key=shares.__getitem__, reverse=True)[:width]
        return [(tip.confidence * min(shares[token] * self.trust, CEILING), token) for token in best]

    def _add(self, tip: _Tip, token: int, confidence: float) -> _Tip | None:
        """Add a node if there is room for it and it pays; return None where nothing can follow it."""
        budget = self.budget
        if len(self.draft) >= budget.nodes or not self.draft.pays(confidence, budget.price):
            return None
        node = self.draft.add(token, tip.node, confidence, self.guesses.source_of(tip.state, token))
        state = self.guesses.descend(tip.state, token)
        return None if state is None else _Tip(node, tip.depth + 1, confidence, state)
