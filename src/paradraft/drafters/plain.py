"""The drafter of plain decoding: it never has a guess."""

from __future__ import annotations

from paradraft.core.arrays import IntArray
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict


class PlainDrafter:
    """Proposes nothing and keeps nothing."""

    needs = Needs(sources=())

    def propose(self, batch: Batch, plan: Plan) -> Proposal:  # noqa: ARG002 - the port's signature
        """Return a proposal without nodes."""
        return Proposal.empty(batch.num_rows)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Learn nothing."""

    def forget(self, rows: IntArray) -> None:
        """Forget nothing."""
