"""What drafters that look text up share: the guesses for each row are grown into its draft, and their worth is learned.

A method says what it keeps for a row and what it guesses from it; the rest is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guesses import Guesses
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.trust import Trust


class TrustedRow(Protocol):
    """What is kept for a row."""

    trust: Trust


Row = TypeVar("Row", bound=TrustedRow)


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """How guesses become drafts.

    `width` children per node make a tree, 1 a chain. A draft ends where another node would cost more than it is
    expected to bring, at the plan's price or at `node_cost` of a plain pass each (0: drafts all it may). is_coupled:
    the rule is the coupled one, so that rows with a temperature draft along its noise.
    """

    width: int = 1
    node_cost: float | None = None
    is_coupled: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigError for a width that leaves no draft."""
        if self.width < 1:
            raise ConfigError(f"width={self.width} leaves no draft.", remedy="Use 1 for chains, more for trees.")


class LookupDrafter(Generic[Row]):
    """Implements guesses.GuessingDrafter, but for `needs`, over what a method keeps for each row and looks up."""

    def __init__(self, rows: RowStates[Row], growth: Growth) -> None:
        self._rows = rows
        self._growth = growth

    def look_up(self, row: Row, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        """Read on in the row's history and return the guesses after it, None if there are none."""
        raise NotImplementedError

    def keep(self, row: Row, batch: Batch, verdict: Verdict, index: int) -> None:
        """Take note of what a step brought the row, in case it ends here."""

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a draft for each row whose last tokens are known."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the guesses for each row, None where it has none."""
        # All before any is looked up: whoever took another row's place publishes its text, whatever the order of rows.
        rows = [self._rows.of(batch, index) if is_drafting(batch, index) else None for index in range(batch.num_rows)]
        return [None if row is None else self.look_up(row, batch, plan, index) for index, row in enumerate(rows)]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn how far the rows' estimates can be trusted."""
        for index in range(batch.num_rows):
            if is_drafting(batch, index):
                row = self._rows.of(batch, index)
                self.keep(row, batch, verdict, index)
                row.trust.learn(proposal, verdict, index)

    def forget(self, rows: IntArray) -> None:
        """Drop what is kept for the rows."""
        self._rows.forget(rows)

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        if guesses is None:
            return Draft()
        growth = self._growth
        price = price_of(plan, growth.node_cost)
        budget = Budget(int(plan.num_nodes[index]), int(plan.depth[index]), growth.width, price)
        noise = coupling_of(batch, index) if growth.is_coupled else None
        return grow(guesses, budget, noise, trust=self._rows.of(batch, index).trust.use())
