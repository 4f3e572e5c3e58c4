"""Drafts from counted continuations: no network, no pass, and something to say after almost every token."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray, ints, join
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.table.layout import Table
from paradraft.drafters.table.lookup import TableLookup
from paradraft.drafters.table.overlay import Overlay, TenantCounts
from paradraft.drafters.trust import Trust


@dataclass(slots=True)
class _Row:
    tenant: str
    answer_from: int  # where the part of the text begins that is not learned yet
    known: IntArray  # view of the row's history
    tail: IntArray = field(default_factory=lambda: ints([]))  # committed in the last step, not in the history yet
    trust: Trust = field(default_factory=Trust)


class TableDrafter:
    """Drafts what the target went on with after the row's last tokens, in the table and in its tenant's answers.

    width: children per node, 1 for chains. node_cost: as for SuffixDrafter. max_learned: contexts that finished answers
    may add over all tenants (about 300 bytes each), 0 to learn nothing. is_coupled: the rule is the coupled one.
    """

    def __init__(
        self,
        table: Table,
        *,
        width: int = 1,
        node_cost: float | None = None,
        max_learned: int = 200_000,
        is_coupled: bool = False,
    ) -> None:
        if width < 1:
            raise ConfigError(f"width={width} leaves no draft.", remedy="Use 1 for chains, more for trees.")
        self.needs = Needs(sources=("table",), weighs_nodes=True, extra_bytes=table.num_bytes)
        self.lookup = TableLookup(table)
        self.learned = Overlay(lengths=self.lookup.lengths, max_contexts=max_learned)
        self._width = width
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._rows = RowStates(_new_row, self._publish)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a draft for each row whose last tokens are known."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the counts behind each row's last tokens."""
        return [self._guesses(batch, plan, index) for index in range(batch.num_rows)]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn how far the row's estimates can be trusted, and keep its last tokens in case it ends here."""
        for index in range(batch.num_rows):
            if is_drafting(batch, index):
                row = self._rows.of(batch, index)
                row.known = batch.history[index]
                row.tail = verdict.tokens_of(index).copy()
                row.trust.learn(proposal, verdict, index)

    def forget(self, rows: IntArray) -> None:
        """Drop the rows; what they have produced is learned."""
        self._rows.forget(rows)

    def _publish(self, row: _Row) -> None:
        self.learned.learn(row.tenant, join([row.known, row.tail]), row.answer_from)

    def _guesses(self, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        if not is_drafting(batch, index):
            return None
        row = self._rows.of(batch, index)
        row.known, row.tail = batch.history[index], ints([])
        if not plan.num_nodes[index]:
            return None
        context = tuple(batch.known(index)[-self.lookup.longest :][::-1].tolist()) if self.lookup.longest else ()
        return TableGuesses(self.lookup, self.learned.of(row.tenant), context)

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        if guesses is None:
            return Draft()
        price = price_of(plan, self._node_cost)
        budget = Budget(int(plan.num_nodes[index]), int(plan.depth[index]), self._width, price)
        noise = coupling_of(batch, index) if self._is_coupled else None
        return grow(guesses, budget, noise, trust=self._rows.of(batch, index).trust.use())


class TableGuesses:
    """The counts behind a context; states are contexts, the newest token first."""

    def __init__(self, lookup: TableLookup, learned: TenantCounts | None, context: tuple[int, ...]) -> None:
        self._lookup = lookup
        self._learned = learned
        self._context = context
        self._told: dict[State, dict[int, float]] = {}

    def root(self) -> State:
        """Return the row's own last tokens."""
        return self._context

    def shares(self, state: State) -> dict[int, float]:
        """Return the chances after a context."""
        assert isinstance(state, tuple)
        shares = self._lookup.shares(state, self._learned)
        self._told[state] = shares
        return shares

    def descend(self, state: State, token: int) -> State | None:
        """Return the context one token further."""
        assert isinstance(state, tuple)
        return (token, *state[: self._lookup.longest - 1])

    def source_of(self, state: State, token: int) -> int:
        """Return the bit of the table if it names the token."""
        told = self._told.get(state)
        return int(token in (self.shares(state) if told is None else told))


def _new_row(batch: Batch, index: int) -> _Row:
    # A row that comes back after preemption has shared its first part already.
    history = batch.history[index]
    return _Row(tenant=batch.sampling[index].tenant, answer_from=len(history), known=history)
