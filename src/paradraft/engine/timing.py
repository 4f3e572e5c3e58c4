"""Wrappers that time the ports. The step itself holds no clock."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.arrays import IntArray
from paradraft.core.ports import Acceptor, Clock, Drafter, Scores, Target, Ticket
from paradraft.core.records import Batch, Plan, Proposal, RowSampling, Verdict
from paradraft.engine.statistics import Totals
from paradraft.scheduling.costs import DraftCosts, PassCosts


class TimedDrafter:
    """A drafter whose propose and observe count as `propose` and `observe` seconds and teach what drafting costs."""

    def __init__(self, inner: Drafter, *, clock: Clock, totals: Totals, costs: DraftCosts) -> None:
        self._inner = inner
        self._clock = clock
        self._totals = totals
        self._costs = costs
        self.needs = inner.needs

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Time the inner propose."""
        begun = self._clock()
        proposal = self._inner.propose(batch, plan)
        seconds = self._clock() - begun
        self._totals.add_seconds("propose", seconds)
        depth = int(plan.depth.max(initial=0))
        if depth:
            self._totals.drafting.add(seconds)
        # Beside a prompt a drafter has more to read than drafts can be blamed for.
        if len(batch.tokens) == batch.num_rows:
            self._costs.observe(depth, seconds)
        return proposal

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Time the inner observe."""
        begun = self._clock()
        self._inner.observe(batch, proposal, scores, verdict)
        self._totals.add_seconds("observe", self._clock() - begun)

    def forget(self, rows: IntArray) -> None:
        """Pass on."""
        self._inner.forget(rows)


class TimedAcceptor:
    """An acceptor whose accept counts as `accept` seconds."""

    def __init__(self, inner: Acceptor, *, clock: Clock, totals: Totals) -> None:
        self._inner = inner
        self._clock = clock
        self._totals = totals
        self.is_exact = inner.is_exact
        self.name = inner.name

    def check(self, sampling: RowSampling, vocab_size: int) -> None:
        """Pass on."""
        self._inner.check(sampling, vocab_size)

    def accept(self, batch: Batch, proposal: Proposal, scores: Scores) -> Verdict:
        """Time the inner accept."""
        begun = self._clock()
        verdict = self._inner.accept(batch, proposal, scores)
        self._totals.add_seconds("accept", self._clock() - begun)
        return verdict


class TimedTarget:
    """A target whose passes count as `score` seconds and teach the scheduler what a pass costs."""

    def __init__(self, inner: Target, *, clock: Clock, totals: Totals, costs: PassCosts) -> None:
        self._inner = inner
        self._clock = clock
        self._totals = totals
        self._costs = costs
        self.limits = inner.limits

    def submit(self, batch: Batch, proposal: Proposal) -> TimedTicket:
        """Start the inner pass; its time runs from here to the end of wait."""
        begun = self._clock()
        return TimedTicket(self._inner.submit(batch, proposal), lambda: self._record(begun, batch, proposal))

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Pass on."""
        self._inner.move(sources, destinations)

    def close(self) -> None:
        """Pass on."""
        self._inner.close()

    def _record(self, begun: float, batch: Batch, proposal: Proposal) -> None:
        seconds = self._clock() - begun
        num_tokens = len(batch.tokens) + len(proposal.tokens)
        self._totals.add_seconds("score", seconds)
        self._totals.add_pass(num_tokens, seconds)
        self._costs.observe(num_tokens, seconds)


class TimedTicket:
    """A pass under way that reports its end."""

    def __init__(self, inner: Ticket, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    def wait(self) -> Scores:
        """Wait for the inner pass."""
        scores = self._inner.wait()
        self._on_end()
        return scores
