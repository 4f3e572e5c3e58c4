"""Which drafted nodes are worth verifying: a budget for the whole batch from measured costs and calibrated confidence.

The drafts are made already, so only the pass counts: nodes of all rows enter in the order of their survival, and as
many of them as give the most expected tokens per second (DSpark, arXiv 2607.05147, algorithm 1; the whole curve is
looked at, since costs may have steps).

Drafts that were drawn from laws are different: whether a node is looked at must not depend on its own token or on what
was drawn behind it, or a sampling rule would no longer give the target's law. They are cut by a price per node that
earlier steps have set, each path at its first node below it, which makes its length a stopping time. Sampled trees are
left whole. See docs/exactness.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paradraft.core.arrays import BoolArray, DoubleArray, IntArray, ints, starts_of
from paradraft.core.ports import Drafter, Scores
from paradraft.core.records import Batch, DraftLaws, Plan, Proposal, Verdict
from paradraft.scheduling.calibration import OnlineCalibration
from paradraft.scheduling.costs import PassCosts
from paradraft.scheduling.survival import Indices, families_of, survival

PROBE_EVERY = 32  # steps after which everything is verified once, so that refused confidences are checked too
SMOOTHING = 0.2  # weight of a step in the price that sampled drafts are cut by


class VerificationBudget:
    """Chooses the nodes of a proposal that are verified."""

    def __init__(self, *, costs: PassCosts, calibration: OnlineCalibration | None = None) -> None:
        self.calibration = calibration or OnlineCalibration()
        self.num_dropped = 0  # nodes that were drafted and not verified
        self._costs = costs
        self._price: float | None = None  # expected tokens that a node must bring, from earlier steps
        self._num_cuts = 0

    def choose(self, batch: Batch, proposal: Proposal) -> Proposal:
        """Return the proposal without the nodes that are not worth their part of the pass."""
        if not len(proposal.tokens) or proposal.confidence is None:
            return proposal
        chances = survival(families_of(proposal), self.calibration.temperatures)
        num_answers = int(np.count_nonzero(batch.num_scored))
        rates = self._rates(len(batch.tokens), num_answers, chances)
        if rates is None:
            return proposal
        kept = self._kept(proposal, chances, rates)
        self._learn_price(len(batch.tokens), rates)
        if kept.all() or self._is_probe():
            return proposal
        self.num_dropped += int(np.count_nonzero(~kept))
        return cut(proposal, kept)

    def observe(self, proposal: Proposal, verdict: Verdict) -> None:
        """Learn what became of the verified nodes."""
        if not len(proposal.tokens) or proposal.confidence is None:
            return
        paths = np.diff(verdict.path_starts)
        stood = np.zeros(len(proposal.tokens), dtype=np.bool_)
        stood[verdict.path + np.repeat(proposal.starts[:-1], paths)] = True
        self.calibration.add(families_of(proposal, stood))

    def _rates(self, num_tokens: int, num_answers: int, chances: DoubleArray) -> DoubleArray | None:
        """Return expected tokens per second with 0, 1 .. N of the best nodes, [N+1]; None before costs are known."""
        seconds = [self._costs.seconds(num_tokens + count) for count in range(len(chances) + 1)]
        if seconds[0] is None:
            return None
        expected = num_answers + np.concatenate([[0.0], np.cumsum(np.sort(chances)[::-1])])
        rates: DoubleArray = expected / np.array(seconds, dtype=np.float64)
        return rates

    def _kept(self, proposal: Proposal, chances: DoubleArray, rates: DoubleArray) -> BoolArray:
        if proposal.laws is not None:
            if self._price is None or not all(proposal.is_chain(row) for row in range(len(proposal.starts) - 1)):
                return np.ones(len(chances), dtype=np.bool_)
            return chances >= self._price
        # Equal survival: the shallower node first, so that no parent is left out.
        order: Indices = np.lexsort((proposal.depths, -chances))
        kept = np.zeros(len(chances), dtype=np.bool_)
        kept[order[: int(rates.argmax())]] = True
        return kept

    def _learn_price(self, num_tokens: int, rates: DoubleArray) -> None:
        """Note what a node must bring at the best rate of this step; sampled drafts of later steps are cut by it."""
        slope = self._costs.node_cost(num_tokens) * (self._costs.seconds(num_tokens) or 0.0)
        price = float(rates.max()) * slope
        self._price = price if self._price is None else self._price + SMOOTHING * (price - self._price)

    def _is_probe(self) -> bool:
        self._num_cuts = (self._num_cuts + 1) % PROBE_EVERY
        return self._num_cuts == 0


def cut(proposal: Proposal, kept: BoolArray) -> Proposal:
    """Return the proposal with the kept nodes [N] only; with a node its parent must be kept."""
    counts = np.diff(proposal.starts)
    rows = np.repeat(np.arange(len(counts)), counts)
    firsts = proposal.starts[:-1][rows]
    # Where a kept node lies among the kept ones of its row.
    new_starts = starts_of(np.bincount(rows[kept], minlength=len(counts)))
    places = np.cumsum(kept) - 1 - new_starts[:-1][rows]
    parents = proposal.parents
    inner = np.where(parents < 0, -1, places[np.maximum(parents + firsts, 0)])
    return replace(
        proposal,
        starts=new_starts,
        tokens=proposal.tokens[kept],
        parents=ints(inner[kept]),
        depths=proposal.depths[kept],
        sources=proposal.sources[kept],
        laws=_cut_laws(proposal.laws, kept),
        confidence=None if proposal.confidence is None else proposal.confidence[kept],
    )


def _cut_laws(laws: DraftLaws | None, kept: BoolArray) -> DraftLaws | None:
    return None if laws is None else replace(laws, of=laws.of[kept])


class ScheduledDrafter:
    """A drafter of whose proposals only the nodes worth verifying are handed on; it observes what was verified."""

    def __init__(self, inner: Drafter, budget: VerificationBudget) -> None:
        self.needs = inner.needs
        self._inner = inner
        self._budget = budget

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return the nodes of the inner proposal that are worth verifying."""
        return self._budget.choose(batch, self._inner.propose(batch, plan))

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Calibrate, and pass the step on."""
        self._budget.observe(proposal, verdict)
        self._inner.observe(batch, proposal, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on."""
        self._inner.forget(rows)
