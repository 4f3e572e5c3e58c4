"""The wall around one source of a merged tree or a ladder: where it fails, the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from paradraft.core.ports import Clock
from paradraft.core.records import Batch, Plan
from paradraft.drafters.check import BadProposal
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.guesses import MAX_SHARES, Guesses, GuessingDrafter, State

_ROUNDING = 1e-6
Answer = TypeVar("Answer")


class GuardedSource(GuardedDrafter):
    """Guards a drafter's guesses as GuardedDrafter does its proposals: a source that fails says nothing."""

    def __init__(self, inner: GuessingDrafter, *, vocab_size: int, clock: Clock | None = None) -> None:
        """Guard inner, whose ids must lie below vocab_size, the target's."""
        if clock is None:
            super().__init__(inner, vocab_size=vocab_size)
        else:
            super().__init__(inner, vocab_size=vocab_size, clock=clock)
        self._source = inner
        self._failed_since = 0

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the rows' guesses behind the wall, None for all while the source rests or if it fails."""
        nothing: list[Guesses | None] = [None] * batch.num_rows
        if self.is_resting:
            return nothing
        # Guesses are asked one by one later; only a whole round without a failure breaks a series of them.
        if self.failures.total() == self._failed_since:
            self.note_success()
        self._failed_since = self.failures.total()
        found = self.attempt(lambda: self._checked_guesses(batch, plan))
        if found is None:
            return nothing
        return [None if guesses is None else _Walled(self, guesses) for guesses in found]

    def check_shares(self, shares: dict[int, float]) -> dict[int, float]:
        """Return shares that are well formed; raise BadProposal for others."""
        if not shares:
            return shares
        size, chances = self.vocab_size, shares.values()
        if len(shares) > MAX_SHARES or min(shares) < 0 or max(shares) >= size:
            raise BadProposal("ids", f"A guess names {len(shares)} tokens, or one outside the vocabulary of {size}.")
        # Written so that NaN fails too.
        if not (sum(chances) <= 1.0 + _ROUNDING and min(chances) >= 0.0):
            raise BadProposal("nan", "A guess holds chances outside 0 .. 1, or of more than 1 in all.")
        return shares

    def _checked_guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        found = self._source.guesses(batch, plan)
        if len(found) != batch.num_rows:
            raise BadProposal("shape", f"There are {len(found)} guesses for {batch.num_rows} rows.")
        return found


class _Walled:
    """One row's guesses; after a failure they are silent for the rest of the round."""

    def __init__(self, wall: GuardedSource, inner: Guesses) -> None:
        self._wall = wall
        self._inner = inner
        self._has_failed = False

    def root(self) -> State:
        return self._ask(self._inner.root)

    def shares(self, state: State) -> dict[int, float]:
        return self._ask(lambda: self._wall.check_shares(self._inner.shares(state))) or {}

    def descend(self, state: State, token: int) -> State | None:
        return self._ask(lambda: self._inner.descend(state, token))

    def source_of(self, state: State, token: int) -> int:
        return self._ask(lambda: self._inner.source_of(state, token)) or 0

    def _ask(self, question: Callable[[], Answer]) -> Answer | None:
        if self._has_failed:
            return None
        before = self._wall.failures.total()
        answer = self._wall.attempt(question)
        self._has_failed = self._wall.failures.total() > before
        return answer
