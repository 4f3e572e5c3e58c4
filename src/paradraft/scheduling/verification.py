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

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.ports import Drafter, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.scheduling.calibration import OnlineCalibration
from paradraft.scheduling.costs import PassCosts
from paradraft.scheduling.survival import survival_of

Number = TypeVar("Number", bound=np.generic)

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
        seconds = self._costs.curve(len(batch.tokens), len(proposal.tokens))
        if seconds is None:
            return proposal
        chances = survival_of(proposal, self.calibration.temperatures)
        order = self._order(proposal, chances)
        num_answers = sum(count > 0 for count in batch.num_scored.tolist())
        rates = _rates(num_answers, [chances[node] for node in order], seconds)
        kept = self._kept(proposal, chances, order, rates)
        self._learn_price(max(rates), seconds)
        if len(kept) == len(chances) or self._is_probe():
            return proposal
        self.num_dropped += len(chances) - len(kept)
        return cut(proposal, kept)

    def observe(self, proposal: Proposal, verdict: Verdict) -> None:
        """Learn what became of the verified nodes."""
        if len(proposal.tokens) and proposal.confidence is not None:
            self.calibration.add(proposal, verdict)

    def _order(self, proposal: Proposal, chances: list[float]) -> list[int]:
        """Return the nodes by falling survival; of equal ones the shallower first, so that no parent is left out."""
        depths: list[int] = proposal.depths.tolist()
        return sorted(range(len(chances)), key=lambda node: (-chances[node], depths[node]))

    def _kept(self, proposal: Proposal, chances: list[float], order: list[int], rates: list[float]) -> list[int]:
        """Return the nodes to verify, in their order in the proposal."""
        if proposal.laws is None:
            return sorted(order[: rates.index(max(rates))])
        if self._price is None or not all(proposal.is_chain(row) for row in range(len(proposal.starts) - 1)):
            return list(range(len(chances)))
        return [node for node, chance in enumerate(chances) if chance >= self._price]

    def _learn_price(self, rate: float, seconds: list[float]) -> None:
        """Note what a node must bring at the best rate of this step; sampled drafts of later steps are cut by it."""
        price = rate * (seconds[-1] - seconds[0]) / (len(seconds) - 1)
        self._price = price if self._price is None else self._price + SMOOTHING * (price - self._price)

    def _is_probe(self) -> bool:
        self._num_cuts = (self._num_cuts + 1) % PROBE_EVERY
        return self._num_cuts == 0


def _rates(num_answers: int, chances: list[float], seconds: list[float]) -> list[float]:
    """Return expected tokens per second with 0, 1 .. N of the best nodes, whose survival falls."""
    expected = accumulate(chances, initial=float(num_answers))
    return [tokens / time for tokens, time in zip(expected, seconds, strict=True)]


def cut(proposal: Proposal, kept: Sequence[int]) -> Proposal:
    """Return the proposal with the kept nodes only, given in order; with a node its parent must be kept."""
    starts: list[int] = proposal.starts.tolist()
    parents: list[int] = proposal.parents.tolist()
    counts = [0] * (len(starts) - 1)
    places: dict[int, int] = {}  # of a kept node, within its row
    new_parents: list[int] = []
    row = 0
    for node in kept:
        while node >= starts[row + 1]:
            row += 1
        parent = parents[node]
        new_parents.append(-1 if parent < 0 else places[starts[row] + parent])
        places[node] = counts[row]
        counts[row] += 1
    laws, confidence = proposal.laws, proposal.confidence
    return replace(
        proposal,
        starts=starts_of(counts),
        tokens=_chosen(proposal.tokens, kept),
        parents=ints(new_parents),
        depths=_chosen(proposal.depths, kept),
        sources=_chosen(proposal.sources, kept),
        laws=None if laws is None else replace(laws, of=_chosen(laws.of, kept)),
        confidence=None if confidence is None else _chosen(confidence, kept),
    )


def _chosen(values: npt.NDArray[Number], kept: Sequence[int]) -> npt.NDArray[Number]:
    """Return some of the values. As a list, because every step makes arrays of lists and none but this indexes."""
    numbers = values.tolist()
    return np.array([numbers[node] for node in kept], dtype=values.dtype)


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
