"""A wrapper that counts what drafting was planned and what came of it."""

from __future__ import annotations

from paradraft.core.arrays import IntArray
from paradraft.core.faults import Walled
from paradraft.core.ports import Drafter, Scores
from paradraft.core.records import Batch, Hindrance, Plan, Proposal, Verdict
from paradraft.engine.statistics import Totals


class CountedDrafter:
    """A drafter whose plans are counted: depths of decoding rows, and why rows got no draft."""

    def __init__(self, inner: Drafter, *, wall: Walled | None, totals: Totals) -> None:
        """Count inner's plans; wall tells whether the drafter failed where it drafts nothing."""
        self.needs = inner.needs
        self._inner = inner
        self._wall = wall
        self._totals = totals
        self._known_faults = 0

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Pass on, and count the decoding rows."""
        proposal = self._inner.propose(batch, plan)
        totals, starts = self._totals, proposal.starts.tolist()
        for index, (depth, hindrance) in enumerate(zip(plan.depth.tolist(), plan.hindrances, strict=True)):
            if depth and starts[index] == starts[index + 1]:
                hindrance = self._why_nothing()
            if depth or hindrance is not None:  # else a prompt
                totals.gammas[depth] += 1
            if hindrance is not None:
                totals.hindrances[hindrance] += 1
        return proposal

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Pass on."""
        self._inner.observe(batch, proposal, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass on."""
        self._inner.forget(rows)

    def _why_nothing(self) -> Hindrance:
        """Return why a row that might have a draft got none."""
        num_faults = 0 if self._wall is None else self._wall.num_faults
        if self._wall is None or not num_faults:
            return Hindrance.NO_GUESS
        if self._wall.faults().is_resting:
            return Hindrance.RESTING
        has_failed, self._known_faults = num_faults > self._known_faults, num_faults
        return Hindrance.FAULT if has_failed else Hindrance.NO_GUESS
