"""One step of generation, in five verbs. Plain decoding is a proposal without nodes; so is prefill."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.ports import Acceptor, Drafter, Target
from paradraft.engine.commit import Committer, Outcome
from paradraft.engine.rows import Rows
from paradraft.scheduling.scheduler import Scheduler


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The parts a step needs. Rows and scheduler own all state; the records in between are frozen."""

    scheduler: Scheduler
    rows: Rows
    drafter: Drafter
    target: Target
    acceptor: Acceptor
    committer: Committer

    def run(self) -> list[Outcome]:
        """Advance the planned rows by one pass of the target: guess, check all guesses at once, keep what stands."""
        plan = self.scheduler.plan()
        if not len(plan.rows):
            return []
        batch = self.rows.gather(plan)
        proposal = self.drafter.propose(batch, plan)
        scores = self.target.submit(batch, proposal).wait()
        verdict = self.acceptor.accept(batch, proposal, scores)
        outcomes = self.committer.commit(batch, proposal, scores, verdict)
        self.drafter.observe(batch, proposal, scores, verdict)
        return outcomes
