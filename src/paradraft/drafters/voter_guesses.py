"""The votes of earlier occurrences (votes.py) as guesses about any path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paradraft.drafters.guesses import State, likeliest
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.votes import MAX_MATCH, Body, Voter, find_voters, vote

Camp = list[list[Voter]]  # for each body, the voters that agree with a path


@dataclass(frozen=True, slots=True)
class TextVoters:
    """A body of text and where its voters are found."""

    body: Body
    index: TokenIndex
    limit: int  # voters asked at a time

    def find(self, context: Sequence[int], depth: int) -> list[Voter]:
        """Return the voters for a context, the newest token first; each goes on for `depth` tokens."""
        return find_voters(self.body, self.index, context, limit=self.limit, depth=depth)


class _Place(NamedTuple):
    """A path: who agrees with it, since how many levels, and its tokens, the newest first."""

    camp: Camp
    level: int
    path: tuple[int, ...]


class VoterGuesses:
    """Bodies of text are asked in order, each for what the ones before it leave.

    Where a path leaves all voters behind, others are looked for that match its end.
    """

    def __init__(self, voters: Sequence[TextVoters], context: Sequence[int], *, depth: int) -> None:
        """Guess after a context, its newest token first, paths of up to `depth` tokens."""
        self._voters = voters
        self._context = context
        self._depth = depth

    def root(self) -> State:
        """Return the state of the empty path."""
        return self._matched(())

    def shares(self, state: State) -> dict[int, float]:
        """Return each voted token's share."""
        assert isinstance(state, _Place)
        level = state.level
        if len(state.path) >= self._depth:
            return {}
        shares: dict[int, float] = {}
        mass = 1.0
        for voters, part in zip(self._voters, state.camp, strict=True):
            if part:
                mass = vote(voters.body, part, [follows[level] for _, _, follows in part], level, mass, shares)
        # Where a text ends, its vote is lost: that it ended there says little about this one.
        shares.pop(SEPARATOR, None)
        return likeliest(shares)

    def descend(self, state: State, token: int) -> State | None:
        """Return who agrees with the token too, or who else matches the path's end."""
        assert isinstance(state, _Place)
        path = (token, *state.path)
        if len(path) >= self._depth:
            return None
        level = state.level
        camp = [[voter for voter in part if voter[2][level] == token] for part in state.camp]
        if any(camp):
            return _Place(camp, level + 1, path)
        return self._matched(path)

    def source_of(self, state: State, token: int) -> int:
        """Return the bits of the bodies with a voter for the token."""
        assert isinstance(state, _Place)
        level = state.level
        bits = 0
        for voters, part in zip(self._voters, state.camp, strict=True):
            if any(voter[2][level] == token for voter in part):
                bits |= 1 << voters.body.source
        return bits

    def _matched(self, path: tuple[int, ...]) -> _Place:
        context = [*path, *self._context[: MAX_MATCH - len(path)]] if path else self._context
        depth = self._depth - len(path)
        return _Place([voters.find(context, depth) for voters in self._voters], 0, path)
