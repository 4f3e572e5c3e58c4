"""Picks, per row and step, the one source whose draft promises the most tokens for what it costs.

Sources stand in the order of their cost, like rungs. The cheap ones are always asked; a dearer one only where what it
promised lately beats what the row has in hand, and now and then to see whether that has changed. Every source's chances
are calibrated by a pool of its own (blend.py), so that promises can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.blend import Pool
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, Price, price_of, proposal_of
from paradraft.drafters.faults import FaultsOfParts
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guard import GuardedSource
from paradraft.drafters.guesses import Guesses, GuessingDrafter
from paradraft.drafters.merged import MergedGuesses, bits_of, needs_of
from paradraft.drafters.rows import may_use, planned_for

PROBE_EVERY = 16  # steps after which a source that was passed over is asked again
FORGETTING = 0.9  # weight of the past in what a source promises
HOPE = 4.0  # tokens a pass that a source is taken to promise before it was ever asked


class LadderDrafter(FaultsOfParts):
    """Drafts with one source per row and step.

    costs: what asking each source adds to a step, in plain passes; the sources are asked in the order of it. The others
    are as for MergedDrafter.
    """

    def __init__(
        self,
        sources: Sequence[GuessingDrafter],
        *,
        vocab_size: int,
        costs: Sequence[float] | None = None,
        width: int = 1,
        node_cost: float | None = None,
        is_coupled: bool = False,
    ) -> None:
        costs = [0.0] * len(sources) if costs is None else costs
        if not sources or width < 1 or len(costs) != len(sources) or min(costs) < 0.0:
            raise ConfigError(
                f"{len(sources)} sources, costs={list(costs)} and width={width} make no ladder.",
                remedy="Name sources, a cost of at least 0 for each, and a width above 0.",
            )
        self.needs = needs_of(sources)
        bits = bits_of(sources)
        self.rungs = [
            _Rung(GuardedSource(source, vocab_size=vocab_size), own, cost)
            for cost, own, source in sorted(zip(costs, bits, sources, strict=True), key=lambda rung: rung[0])
        ]
        self.parts = [rung.wall for rung in self.rungs]
        self._width = width
        self._node_cost = node_cost
        self._is_coupled = is_coupled

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return each row's most promising draft."""
        price = price_of(plan, self._node_cost)
        best = [Draft() for _ in range(batch.num_rows)]
        rates = [1.0] * batch.num_rows
        for rung in self.rungs:
            wanted = [
                may_use(batch, at, rung.wall.needs.sources) and rung.is_worth_asking(rate, price, int(plan.depth[at]))
                for at, rate in enumerate(rates)
            ]
            drafts = self._drafts(rung, batch, planned_for(plan, wanted), price)
            for index, draft in enumerate(drafts):
                if draft is None:
                    continue
                rate = draft.expected / (draft.cost(price) + rung.cost)
                rung.note(draft.expected)
                if rate > rates[index]:
                    best[index], rates[index] = draft, rate
        return proposal_of(best)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Calibrate every source that was asked, and let the sources learn."""
        shown = replace(proposal, confidence=None)
        for rung in self.rungs:
            for index, row in enumerate(batch.rows.tolist()):
                asked = rung.asked.pop(row, None)
                if asked is not None:
                    asked.learn(verdict.tokens_of(index).tolist())
            rung.wall.observe(batch, shown, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on."""
        for rung in self.rungs:
            for row in rows.tolist():
                rung.asked.pop(row, None)
            rung.wall.forget(rows)

    def _drafts(self, rung: _Rung, batch: Batch, plan: Plan, price: Price) -> list[Draft | None]:
        found = rung.wall.guesses(batch, plan)
        return [self._draft(rung, batch, plan, index, price, guesses) for index, guesses in enumerate(found)]

    def _draft(
        self, rung: _Rung, batch: Batch, plan: Plan, index: int, price: Price, found: Guesses | None
    ) -> Draft | None:
        if found is None:
            return None
        pool = rung.pools[not batch.sampling[index].params.is_greedy]
        noise = coupling_of(batch, index) if self._is_coupled else None
        guesses = MergedGuesses([found], [rung.bits], pool, noise)
        rung.asked[int(batch.rows[index])] = guesses
        return grow(guesses, Budget(int(plan.num_nodes[index]), int(plan.depth[index]), self._width, price))


class _Rung:
    """A source, what asking it costs, and what it has promised lately."""

    def __init__(self, wall: GuardedSource, bits: range, cost: float) -> None:
        name = "+".join(wall.needs.sources)
        self.wall = wall
        self.bits = bits
        self.cost = cost
        self.pools = {False: Pool([name]), True: Pool([name])}
        self.asked: dict[int, MergedGuesses] = {}
        self._promise = HOPE
        self._passed_over = 0

    def is_worth_asking(self, rate: float, price: Price, depth: int) -> bool:
        """Whether its usual promise would beat what a row has in hand, or it was passed over for long."""
        if depth < 1:
            return False
        usual = self._promise / (1.0 + price.draft + price.node * min(depth, self._promise) + self.cost)
        if self.cost == 0.0 or usual > rate or self._passed_over + 1 >= PROBE_EVERY:
            self._passed_over = 0
            return True
        self._passed_over += 1
        return False

    def note(self, expected: float) -> None:
        """Learn what it promised."""
        self._promise = FORGETTING * self._promise + (1.0 - FORGETTING) * expected
