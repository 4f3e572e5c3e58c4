"""The votes of earlier occurrences (votes.py) as guesses about any path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paradraft.drafters.guesses import State, likeliest
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.votes import Body, Voter, vote

Camp = list[list[Voter]]  # for each body of text, the voters that agree with a path


class _Place(NamedTuple):
    """A path: who agrees with it, and how many tokens it has."""

    camp: Camp
    level: int


class VoterGuesses:
    """Bodies of text are asked in order, each for what the ones before it leave.

    Nothing is said of a path that has left all voters behind: other sources know the few tokens behind their matches
    as well, and the next step looks for voters anew.
    """

    def __init__(self, bodies: Sequence[Body], camp: Camp, *, depth: int) -> None:
        """Guess paths of up to `depth` tokens, as many as each voter goes on for."""
        self._bodies = bodies
        self._camp = camp
        self._depth = depth

    def root(self) -> State:
        """Return the state of the empty path."""
        return _Place(self._camp, 0)

    def shares(self, state: State) -> dict[int, float]:
        """Return each voted token's share."""
        assert isinstance(state, _Place)
        level = state.level
        shares: dict[int, float] = {}
        mass = 1.0
        for body, part in zip(self._bodies, state.camp, strict=True):
            if part:
                mass = vote(body, part, [follows[level] for _, _, follows in part], level, mass, shares)
        # Where a text ends, its vote is lost: that it ended there says little about this one.
        shares.pop(SEPARATOR, None)
        return likeliest(shares)

    def descend(self, state: State, token: int) -> State | None:
        """Return who agrees with the token too, None if nobody does."""
        assert isinstance(state, _Place)
        level = state.level
        if level + 1 >= self._depth:
            return None
        camp = [[voter for voter in part if voter[2][level] == token] for part in state.camp]
        return _Place(camp, level + 1) if any(camp) else None

    def source_of(self, state: State, token: int) -> int:
        """Return the bits of the bodies with a voter for the token."""
        assert isinstance(state, _Place)
        level = state.level
        bits = 0
        for body, part in zip(self._bodies, state.camp, strict=True):
            if any(voter[2][level] == token for voter in part):
                bits |= 1 << body.source
        return bits
