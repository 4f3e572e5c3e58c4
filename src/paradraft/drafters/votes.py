"""Predicts the next token from earlier occurrences of the context: counts at every match length, blended.

With c_n(t) of n_n occurrences that match at least n tokens going on with t, and P of the next shorter length,
    P_n(t) = (c_n(t) + caution_n * P(t)) / (n_n + caution_n)
so a longer match overrules a shorter one as far as it has evidence: interpolation as in prediction by partial
matching. What is left for the shortest length goes to the next body of text, and at last to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR

MAX_MATCH = 12  # longer matches count as this long


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """How a body of text votes."""

    source: int  # bit of Proposal.sources
    caution: tuple[float, ...]  # occurrences a match must outweigh, by its length from 1; the last for all longer
    is_recency_weighted: bool  # whether the k-th most recent occurrence weighs 1/k instead of 1


# An occurrence of the context: how long it matches, how much it weighs, and the tokens behind it, as many as a draft
# may be deep. Plain tuples, because a draft goes through them dozens of times.
Voter = tuple[int, float, list[int]]


def find_voters(body: Body, index: TokenIndex, context: Sequence[int], *, limit: int, depth: int) -> list[Voter]:
    """Return the occurrences in an index of the longest matching end of a context (newest token first).

    The longest match comes first, the most recent one among equals. Where the context is the end of the indexed text
    itself, an occurrence may overlap it; what follows goes on periodically then, as it does for whoever copies it.
    """
    voters: list[Voter] = []
    for rank, (length, follows) in enumerate(index.find(context, limit, depth), start=1):
        if len(follows) < depth:
            follows = _prolonged(follows, depth)
        voters.append((length, 1.0 / rank if body.is_recency_weighted else 1.0, follows))
    if len(voters) > 1:
        voters.sort(key=_length, reverse=True)
    return voters


def vote(
    body: Body, voters: Sequence[Voter], words: Sequence[int], depth: int, mass: float, shares: dict[int, float]
) -> float:
    """Spread mass over the words of voters, as the formula above does; add to shares, return what is left.

    depth is how far the path that the voters agree with has already gone beyond their matches.
    """
    caution, deepest = body.caution, len(body.caution)
    steps: list[tuple[int, float]] = []
    begin_mass, total, level = mass, 0.0, voters[0][0]
    for at, (length, weight, _) in enumerate(voters):
        if length != level:
            pull = caution[min(level + depth, deepest) - 1]
            steps.append((at, mass / (total + pull)))
            mass *= pull / (total + pull)
            level = length
        total += weight
    pull = caution[min(level + depth, deepest) - 1]
    steps.append((len(voters), mass / (total + pull)))
    mass *= pull / (total + pull)
    if words.count(words[0]) == len(words):
        shares[words[0]] = shares.get(words[0], 0.0) + begin_mass - mass
    else:
        _spread(voters, words, steps, shares)
    return mass


def _spread(
    voters: Sequence[Voter], words: Sequence[int], steps: Sequence[tuple[int, float]], shares: dict[int, float]
) -> None:
    """Give each voter the sum of the steps of its own match length and of all shorter ones, times its weight."""
    scale, begin = sum([step for _, step in steps]), 0
    for end, step in steps:
        for place in range(begin, end):
            word = words[place]
            shares[word] = shares.get(word, 0.0) + voters[place][1] * scale
        scale -= step
        begin = end


def _length(voter: Voter) -> int:
    return voter[0]


def _prolonged(follows: list[int], depth: int) -> list[int]:
    if not follows:
        return [SEPARATOR] * depth
    return (follows * (depth // len(follows) + 1))[:depth]
