"""Grows a draft from guesses: the likeliest node first, as long as it pays.

Every node is taken for as likely as all its ancestors and itself together, so of all trees within the budget this one
has the most expected tokens (best-first search; the shape of OPT-Tree, arXiv 2406.17276, and DDTree, 2604.12989).

Asking is what takes time, so a place is asked as late as possible: it waits in the same queue as the nodes, at the most
that a child of it could be worth, and is asked when nothing else is worth more. Places that never come to the front
have no child in the draft, so the draft is the one that asking everywhere would give.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.trust import CEILING

# -confidence, rank among equals, token, parent, depth of the parent, state of the parent. A place below a node is a
# line like those of its children, with the node's own token, its number and the state above it, and no rank.
Offer = tuple[float, int, int, int, int, State]
_PLACE = -1


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a draft may grow."""

    nodes: int
    depth: int
    width: int  # children per node; 1 gives a chain
    price: Price


def grow(guesses: Guesses, budget: Budget, noise: Coupling | None = None, *, trust: float = 1.0) -> Draft:
    """Return the draft that the guesses support, an empty one if none pays.

    noise, of rows with a temperature under the coupled rule, bends each level towards what the target will choose.
    trust multiplies each level's estimate.
    """
    draft = Draft()
    if budget.nodes < 1 or budget.depth < 1:
        return draft
    price, width = budget.price, budget.width
    waiting: list[Offer] = [(-1.0, _PLACE, 0, -1, 0, None)]
    while waiting:
        negative, rank, token, parent, depth, above = heapq.heappop(waiting)
        if not draft.pays(-negative, price):
            break
        if rank != _PLACE:
            node = draft.add(token, parent, -negative, guesses.source_of(above, token))
            if len(draft.tokens) >= budget.nodes:
                break
            if depth + 1 < budget.depth:
                heapq.heappush(waiting, (negative * CEILING, _PLACE, token, node, depth + 1, above))
            continue
        state = guesses.root() if parent < 0 else guesses.descend(above, token)
        if state is None:
            continue
        shares = guesses.shares(state)
        if noise is not None and shares:
            shares = noise.bend(shares, depth)
        confidence = 1.0 if parent < 0 else draft.confidence[parent]
        rank = (parent + 1) * width
        for child in sorted(shares, key=shares.__getitem__, reverse=True)[:width]:
            value = confidence * min(shares[child] * trust, CEILING)
            heapq.heappush(waiting, (-value, rank, child, parent, depth, state))
            rank += 1
    return draft.if_worthwhile(price)
