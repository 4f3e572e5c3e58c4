"""Grows a draft from votes: the likeliest node first, as long as it pays."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.drafters.draft import Draft
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.trust import CEILING
from paradraft.drafters.votes import Body, Voter, vote

Camp = list[list[Voter]]  # for each body, the voters that agree with a path
Offer = tuple[float, int, int, int, int, Camp]  # -confidence, order of offering, token, parent, depth, who is for it


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a draft may grow."""

    nodes: int
    depth: int
    width: int  # children per node; 1 gives a chain
    node_cost: float  # of a plain pass


def grow(bodies: Sequence[Body], voters: Camp, budget: Budget, trust: float) -> Draft:
    """Return the draft that the voters support; bodies are asked in order, each for what the ones before it leave.

    trust multiplies each level's estimate. Best-first order keeps parents before children, because confidence
    only falls along a path.
    """
    draft = Draft()
    offers: list[Offer] = []
    count = _offer(offers, 0, bodies, voters, (-1, 0, 1.0), (trust, budget.width))
    while offers and len(draft.tokens) < budget.nodes:
        negative, _, token, parent, depth, camp = heapq.heappop(offers)
        if not draft.pays(-negative, budget.node_cost):
            break
        sources = sum([1 << body.source for body, part in zip(bodies, camp, strict=True) if part])
        node = draft.add(token, parent, -negative, sources)
        if depth < budget.depth and node + 1 < budget.nodes:
            count = _offer(offers, count, bodies, camp, (node, depth, -negative), (trust, budget.width))
    return draft


def _offer(
    offers: list[Offer],
    count: int,
    bodies: Sequence[Body],
    camp: Camp,
    origin: tuple[int, int, float],
    terms: tuple[float, int],
) -> int:
    """Offer the likeliest children of origin (node, depth, confidence) on these terms (trust, width)."""
    (parent, depth, confidence), (trust, width) = origin, terms
    shares: dict[int, float] = {}
    mass = 1.0
    for body, part in zip(bodies, camp, strict=True):
        if part:
            words = [follows[depth] for _, _, follows in part]
            mass = vote(body, part, words, depth, mass, shares)
    shares.pop(SEPARATOR, None)
    for token in _best(shares, width):
        agreeing = [[voter for voter in part if voter[2][depth] == token] for part in camp]
        count += 1
        share = min(shares[token] * trust, CEILING)
        heapq.heappush(offers, (-confidence * share, count, token, parent, depth + 1, agreeing))
    return count


def _best(shares: dict[int, float], width: int) -> list[int]:
    """Return the tokens with the largest shares, the first to be named among equals."""
    if len(shares) <= 1:
        return list(shares)
    if width == 1:
        return [max(shares, key=shares.__getitem__)]
    return sorted(shares, key=shares.__getitem__, reverse=True)[:width]
