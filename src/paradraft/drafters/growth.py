"""Grows a draft from guesses: the likeliest node first, as long as it pays.

Every node is taken for as likely as all its ancestors and itself together, so of all trees within the budget this one
has the most expected tokens (best-first search; the shape of OPT-Tree, arXiv 2406.17276, and DDTree, 2604.12989).

Asking what comes below a node is what takes time, and most nodes of a flat tree get no child. So the places below nodes
wait in the same queue, each at what its best child is hoped to be worth, and are asked when nothing else is worth more
and a node of that worth would pay.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass

from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.trust import CEILING

HOPE = 0.6  # of a node's own chance, for its best child; asking everywhere brings no more tokens (docs/drafters.md)
_PLACE = -1

# -worth, rank among equals, token, parent, depth of the parent, state of the parent. The place below a node is written
# with the node's token, its number as the parent, and no rank.
Offer = tuple[float, int, int, int, int, State]


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a draft may grow."""

    nodes: int
    depth: int
    width: int  # children per node; 1 gives a chain
    price: Price


class SelfGrowing(Guesses, ABC):
    """Guesses that grow the same draft themselves, quicker than by being asked."""

    @abstractmethod
    def grown(self, budget: Budget) -> Draft:
        """Return what `grow` does without noise and with full trust."""


def grow(guesses: Guesses, budget: Budget, noise: Coupling | None = None, *, trust: float = 1.0) -> Draft:
    """Return the draft that the guesses support, an empty one if none pays.

    noise, of rows with a temperature under the coupled rule, bends each level towards what the target will choose.
    trust multiplies each level's estimate.
    """
    draft = Draft()
    if budget.nodes < 1 or budget.depth < 1:
        return draft
    if noise is None and trust == 1.0 and isinstance(guesses, SelfGrowing):
        return guesses.grown(budget)
    price, width = budget.price, budget.width
    waiting: list[Offer] = [(-1.0, _PLACE, 0, -1, 0, None)]
    while waiting:
        worth, rank, token, parent, depth, above = heapq.heappop(waiting)
        if not draft.pays(-worth, price):
            break
        if rank != _PLACE:
            node = draft.add(token, parent, -worth, guesses.source_of(above, token))
            if len(draft.tokens) >= budget.nodes:
                break
            if depth + 1 < budget.depth:
                heapq.heappush(waiting, (worth * HOPE, _PLACE, token, node, depth + 1, above))
            continue
        confidence = 1.0 if parent < 0 else draft.confidence[parent]
        state = guesses.root() if parent < 0 else guesses.descend(above, token)
        shares = {} if state is None else guesses.shares(state)
        if noise is not None and shares:
            shares = noise.bend(shares, depth)
        best = sorted(shares, key=shares.__getitem__, reverse=True)[: min(width, budget.nodes - len(draft.tokens))]
        for rank, child in enumerate(best, start=(parent + 1) * width):
            value = confidence * min(shares[child] * trust, CEILING)
            heapq.heappush(waiting, (-value, rank, child, parent, depth, state))
    return draft.if_worthwhile(price)
