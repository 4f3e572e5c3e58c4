"""What a drafter believes about the tokens to come, path by path, before anybody decides which of it becomes a draft.

A drafter that can say how likely each next token is, below any path of its own or of somebody else's, implements
`GuessingDrafter`. Its guesses are grown into a draft alone (growth.py) or blended with others' in one tree (merged.py).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from paradraft.core.ports import Drafter
from paradraft.core.records import Batch, Plan

State = object  # a place in the tree of all paths; opaque to everybody but its maker, and never changed
MAX_SHARES = 16  # entries of one answer


def likeliest(shares: dict[int, float]) -> dict[int, float]:
    """Return the likeliest of the shares, as many as one answer may have."""
    if len(shares) <= MAX_SHARES:
        return shares
    return {token: shares[token] for token in sorted(shares, key=shares.__getitem__, reverse=True)[:MAX_SHARES]}


class Guesses(Protocol):
    """One row in one round. Asking changes nothing, so paths can be asked about in any order, and again."""

    def root(self) -> State:
        """Return the state of the empty path."""
        ...

    def shares(self, state: State) -> dict[int, float]:
        """Return token -> chance that it is the next one if the path so far stands.

        Chances sum to at most 1, the rest belongs to tokens that are not named; at most MAX_SHARES are, {} if nothing
        is known. Ids are the target's.
        """
        ...

    def descend(self, state: State, token: int) -> State | None:
        """Return the state one token further, which need not be one of the shares; None: nothing to say below it."""
        ...

    def source_of(self, state: State, token: int) -> int:
        """Return the bits of Proposal.sources that stand behind this token below this state; 0 if none does."""
        ...


@runtime_checkable
class GuessingDrafter(Drafter, Protocol):
    """A drafter whose guesses can be asked for one by one.

    What it is told to observe may be a proposal that somebody else made of its guesses and others'; then
    Proposal.confidence is not its own, is None, and sources are another's bits.
    """

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the guesses for each row, None where it has none or the plan has no nodes.

        A network makes its one pass over all rows in here. Guesses are valid until the next call of propose, guesses,
        observe or forget. plan.depth bounds how deep it is worth looking.
        """
        ...
