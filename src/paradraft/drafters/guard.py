"""The one wall between drafters and the engine: whatever a drafter does, it costs drafts and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from paradraft.core.arrays import IntArray
from paradraft.core.faults import DrafterFaults
from paradraft.core.ports import Clock, Drafter, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.check import BadProposal, check_proposal
from paradraft.drafters.faults import add_faults, walled_of
from paradraft.drafters.guesses import MAX_SHARES, Guesses, GuessingDrafter, State

_ROUNDING = 1e-6  # of chances that sum to 1
Result = TypeVar("Result")


class GuardedDrafter:
    """Wraps a drafter: checks each proposal, and turns an exception or a bad proposal into one without nodes.

    After `max_failures` failures in a row the drafter rests for `pause_seconds`; then a single failure sends it to
    rest again. While it rests it proposes nothing, but it still observes and forgets.
    `failures` counts by kind (an exception's class, or BadProposal.kind), `last_reason` is the last one in words.
    """

    def __init__(
        self,
        inner: Drafter,
        *,
        vocab_size: int,
        max_failures: int = 3,
        pause_seconds: float = 5.0,
        clock: Clock = time.monotonic,
    ) -> None:
        """Guard inner, whose ids must lie below vocab_size, the target's."""
        self.needs = inner.needs
        self.failures: Counter[str] = Counter()
        self.last_reason: str | None = None
        self.num_pauses = 0
        self.num_failures = 0
        self._inner = inner
        self._within = walled_of(inner)
        self.vocab_size = vocab_size
        self._max_failures = max_failures
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._in_a_row = 0
        self._rests_until: float | None = None

    @property
    def inner(self) -> Drafter:
        """Return the drafter behind the wall."""
        return self._inner

    @property
    def is_resting(self) -> bool:
        """Whether the drafter is left out because it failed too often."""
        return self._rests_until is not None and self._clock() < self._rests_until

    @property
    def num_faults(self) -> int:
        """Return how often it failed, or a source behind a wall of its own."""
        return self.num_failures + sum([wall.num_faults for wall in self._within])

    def faults(self) -> DrafterFaults:
        """Return its own faults and those of its sources."""
        within = add_faults([wall.faults() for wall in self._within])
        return DrafterFaults(
            by_kind=self.failures + Counter(within.by_kind),
            num_pauses=self.num_pauses + within.num_pauses,
            is_resting=self.is_resting or within.is_resting,
        )

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return the drafter's proposal if it can be used, else one without nodes."""
        if self.is_resting:
            return Proposal.empty(batch.num_rows)
        proposal = self.attempt(lambda: self._checked(batch, plan))
        return Proposal.empty(batch.num_rows) if proposal is None else proposal

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Pass the step on."""
        self.attempt(lambda: self._inner.observe(batch, proposal, scores, verdict))

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on."""
        self.attempt(lambda: self._inner.forget(rows))

    def _checked(self, batch: Batch, plan: Plan) -> Proposal:
        proposal = self._inner.propose(batch, plan)
        check_proposal(proposal, batch, plan, self.vocab_size)
        self.note_success()
        return proposal

    def note_success(self) -> None:
        """End a series of failures."""
        self._in_a_row = 0
        self._rests_until = None

    def attempt(self, action: Callable[[], Result]) -> Result | None:
        """Return the action's result, None if it fails; failures are counted and may send the drafter to rest."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - a drafter may fail in any way; this is the wall
            self.count(error)
        return None

    def count(self, error: Exception) -> None:
        """Count a failure by its kind."""
        if isinstance(error, BadProposal):
            self._count(error.kind, error.problem)
        else:
            self._count(type(error).__name__, f"{type(error).__name__}: {error}")

    def _count(self, kind: str, reason: str) -> None:
        self.failures[kind] += 1
        self.num_failures += 1
        self.last_reason = reason
        self._in_a_row += 1
        if self._in_a_row >= self._max_failures:
            self._rests_until = self._clock() + self._pause_seconds
            self.num_pauses += 1


class GuardedSource(GuardedDrafter):
    """Guards a drafter's guesses as its proposals are guarded: a source that fails says nothing, others go on."""

    def __init__(self, inner: GuessingDrafter, *, vocab_size: int, clock: Clock = time.monotonic) -> None:
        """Guard inner, whose ids must lie below vocab_size, the target's."""
        super().__init__(inner, vocab_size=vocab_size, clock=clock)
        self._source = inner
        self._failed_before = 0

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the rows' guesses behind the wall, None for all while the source rests or if it fails."""
        nothing: list[Guesses | None] = [None] * batch.num_rows
        if self.is_resting:
            return nothing
        # Guesses are asked one by one later, so only a whole round without a failure breaks a series of them.
        if self.num_failures == self._failed_before:
            self.note_success()
        self._failed_before = self.num_failures
        found = self.attempt(lambda: self._checked_guesses(batch, plan))
        return nothing if found is None else [None if one is None else _Walled(self, one) for one in found]

    def _checked_guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        found = self._source.guesses(batch, plan)
        if len(found) != batch.num_rows:
            raise BadProposal("shape", f"There are {len(found)} guesses for {batch.num_rows} rows.")
        return found


class _Walled:
    """One row's guesses; after a failure they are silent for the rest of the round."""

    __slots__ = ("_has_failed", "_inner", "_size", "_wall")

    def __init__(self, wall: GuardedSource, inner: Guesses) -> None:
        self._wall = wall
        self._inner = inner
        self._size = wall.vocab_size
        self._has_failed = False

    # Asked dozens of times for a draft, so each has its own wall instead of a call to a common one.

    def root(self) -> State:
        try:
            return self._inner.root()
        except Exception as error:  # noqa: BLE001 - the wall
            self._fail(error)
            return None

    def shares(self, state: State) -> dict[int, float]:
        if self._has_failed:
            return {}
        try:
            return _checked_shares(self._inner.shares(state), self._size)
        except Exception as error:  # noqa: BLE001 - the wall
            self._fail(error)
            return {}

    def descend(self, state: State, token: int) -> State | None:
        if self._has_failed:
            return None
        try:
            return self._inner.descend(state, token)
        except Exception as error:  # noqa: BLE001 - the wall
            self._fail(error)
            return None

    def source_of(self, state: State, token: int) -> int:
        if self._has_failed:
            return 0
        try:
            return int(self._inner.source_of(state, token))
        except Exception as error:  # noqa: BLE001 - the wall
            self._fail(error)
            return 0

    def _fail(self, error: Exception) -> None:
        self._has_failed = True
        self._wall.count(error)


def _checked_shares(shares: dict[int, float], size: int) -> dict[int, float]:
    if not shares:
        return {}
    chances = shares.values()
    if len(shares) > MAX_SHARES or min(shares) < 0 or max(shares) >= size:
        raise BadProposal("ids", f"A guess names {len(shares)} tokens, or one outside the vocabulary of {size}.")
    # Written so that NaN fails too.
    if not (sum(chances) <= 1.0 + _ROUNDING and min(chances) >= 0.0):
        raise BadProposal("nan", "A guess holds chances outside 0 .. 1, or of more than 1 in all.")
    return shares
