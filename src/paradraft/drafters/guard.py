"""The one wall between drafters and the engine: whatever a drafter does, it costs drafts and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from paradraft.core.arrays import IntArray
from paradraft.core.ports import Clock, Drafter, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.check import BadProposal, check_proposal

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
        self._inner = inner
        self.vocab_size = vocab_size
        self._max_failures = max_failures
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._in_a_row = 0
        self._rests_until: float | None = None

    @property
    def is_resting(self) -> bool:
        """Whether the drafter is left out because it failed too often."""
        return self._rests_until is not None and self._clock() < self._rests_until

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
        except BadProposal as error:
            self._count(error.kind, error.problem)
        except Exception as error:  # noqa: BLE001 - a drafter may fail in any way; this is the wall
            self._count(type(error).__name__, f"{type(error).__name__}: {error}")
        return None

    def _count(self, kind: str, reason: str) -> None:
        self.failures[kind] += 1
        self.last_reason = reason
        self._in_a_row += 1
        if self._in_a_row >= self._max_failures:
            self._rests_until = self._clock() + self._pause_seconds
            self.num_pauses += 1
