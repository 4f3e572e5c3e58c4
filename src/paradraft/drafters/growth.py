"""Grows a draft from votes: the likeliest node first, as long as it pays."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.trust import CEILING
from paradraft.drafters.votes import Body, Voter, vote

Camp = list[list[Voter]]  # for each body, the voters that agree with a path
Offer = tuple[float, int, int, int, int, Camp]  # -confidence, order of offering, token, parent, depth, who was asked


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a draft may grow."""

    nodes: int
    depth: int
    width: int  # children per node; 1 gives a chain
    price: Price


def grow(bodies: Sequence[Body], voters: Camp, budget: Budget, trust: float) -> Draft:
    """Return the draft that the voters support; bodies are asked in order, each for what the ones before it leave.

    trust multiplies each level's estimate.
    """
    grown = _grow_chain if budget.width == 1 else _grow_tree
    return grown(bodies, voters, budget, trust).if_worthwhile(budget.price)


def _grow_chain(bodies: Sequence[Body], camp: Camp, budget: Budget, trust: float) -> Draft:
    draft = Draft()
    confidence = 1.0
    for depth in range(min(budget.depth, budget.nodes)):
        shares = _shares(bodies, camp, depth)
        if not shares:
            break
        token = max(shares, key=shares.__getitem__)
        confidence *= min(shares[token] * trust, CEILING)
        if not draft.pays(confidence, budget.price):
            break
        camp = _agreeing(camp, depth, token)
        draft.add(token, depth - 1, confidence, _sources(bodies, camp))
    return draft


def _grow_tree(bodies: Sequence[Body], camp: Camp, budget: Budget, trust: float) -> Draft:
    """Add the likeliest node of all that could be next. Confidence only falls along a path, so parents come first."""
    draft = Draft()
    offers: list[Offer] = []
    node, depth, confidence, num_offers = -1, 0, 1.0, 0
    while True:
        shares = _shares(bodies, camp, depth) if depth < budget.depth else {}
        for token in sorted(shares, key=shares.__getitem__, reverse=True)[: budget.width]:
            value = confidence * min(shares[token] * trust, CEILING)
            num_offers += 1
            heapq.heappush(offers, (-value, num_offers, token, node, depth, camp))
        if not offers or len(draft.tokens) == budget.nodes:
            return draft
        negative, _, token, parent, depth, camp = heapq.heappop(offers)
        confidence = -negative
        if not draft.pays(confidence, budget.price):
            return draft
        camp = _agreeing(camp, depth, token)
        node = draft.add(token, parent, confidence, _sources(bodies, camp))
        depth += 1


def _shares(bodies: Sequence[Body], camp: Camp, depth: int) -> dict[int, float]:
    """Return how likely each token is to come next after a path of this depth."""
    shares: dict[int, float] = {}
    mass = 1.0
    for body, part in zip(bodies, camp, strict=True):
        if part:
            mass = vote(body, part, [follows[depth] for _, _, follows in part], depth, mass, shares)
    # Where a text ends, its vote is lost: that it ended there says little about this one.
    shares.pop(SEPARATOR, None)
    return shares


def _agreeing(camp: Camp, depth: int, token: int) -> Camp:
    return [[voter for voter in part if voter[2][depth] == token] for part in camp]


def _sources(bodies: Sequence[Body], camp: Camp) -> int:
    return sum([1 << body.source for body, part in zip(bodies, camp, strict=True) if part])
