"""Grows a draft from guesses: the likeliest node first, as long as it pays.

Every node is taken for as likely as all its ancestors and itself together, so of all trees within the budget this one
has the most expected tokens (best-first search; the shape of OPT-Tree, arXiv 2406.17276, and DDTree, 2604.12989).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.trust import CEILING

# -confidence, order of offering, token, parent, depth of the parent, state of the parent
Offer = tuple[float, int, int, int, int, State]


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
    if budget.nodes < 1:
        return draft
    offers: list[Offer] = []
    state: State | None = guesses.root()
    node, depth, confidence, num_offers = -1, 0, 1.0, 0
    price, width = budget.price, budget.width
    while True:
        if state is not None and depth < budget.depth:
            shares = guesses.shares(state)
            if noise is not None and shares:
                shares = noise.bend(shares, depth)
            for token in sorted(shares, key=shares.__getitem__, reverse=True)[:width]:
                num_offers += 1
                value = confidence * min(shares[token] * trust, CEILING)
                heapq.heappush(offers, (-value, num_offers, token, node, depth, state))
        if not offers:
            break
        negative, _, token, parent, depth, above = heapq.heappop(offers)
        confidence = -negative
        if not draft.pays(confidence, price):
            break
        node = draft.add(token, parent, confidence, guesses.source_of(above, token))
        if len(draft.tokens) >= budget.nodes:
            break
        state = guesses.descend(above, token)
        depth += 1
    return draft.if_worthwhile(price)
