"""Drafts from counted continuations: no network, no pass, and something to say after almost every token."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray, ints, join
from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan, Verdict
from paradraft.drafters.coupling import Coupling, coupling_of
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.lookup_drafter import Growth, LookupDrafter
from paradraft.drafters.rows import RowStates
from paradraft.drafters.table.layout import Table
from paradraft.drafters.table.lookup import TableLookup
from paradraft.drafters.table.overlay import Overlay, TenantCounts
from paradraft.drafters.trust import Trust


@dataclass(slots=True)
class _Row:
    tenant: str
    answer_from: int  # where the part of the text begins that is not learned yet
    known: IntArray  # view of the row's history before its last step
    tail: IntArray = field(default_factory=lambda: ints([]))  # committed in that step
    trust: Trust = field(default_factory=Trust)


class TableDrafter(LookupDrafter[_Row]):
    """Drafts what the target went on with after the row's last tokens, in the table and in its tenant's answers.

    max_learned: contexts that finished answers may add over all tenants (about 300 bytes each), 0 to learn nothing.
    width, node_cost, is_coupled: see Growth.
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
        super().__init__(
            RowStates(_new_row, self._publish), Growth(width=width, node_cost=node_cost, is_coupled=is_coupled)
        )
        self.needs = Needs(sources=("table",), weighs_nodes=True, extra_bytes=table.num_bytes)
        self.lookup = TableLookup(table)
        self.learned = Overlay(lengths=self.lookup.lengths, max_contexts=max_learned)

    def look_up(self, row: _Row, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        """Return the counts behind the row's last tokens."""
        if not plan.num_nodes[index]:
            return None
        context = tuple(batch.known(index)[-self.lookup.longest :][::-1].tolist()) if self.lookup.longest else ()
        noise = coupling_of(batch, index) if self._growth.is_coupled else None
        return TableGuesses(self.lookup, self.learned.of(row.tenant), context, noise)

    def keep(self, row: _Row, batch: Batch, verdict: Verdict, index: int) -> None:
        """Keep the row's last tokens: when it ends, what it has produced is learned."""
        row.known, row.tail = batch.history[index], verdict.tokens_of(index)

    def _publish(self, row: _Row) -> None:
        self.learned.learn(row.tenant, join([row.known, row.tail]), row.answer_from)


class TableGuesses:
    """The counts behind a context; states are contexts, the newest token first, with the whole path in front."""

    def __init__(
        self,
        lookup: TableLookup,
        learned: TenantCounts | None,
        context: tuple[int, ...],
        noise: Coupling | None = None,
    ) -> None:
        self._lookup = lookup
        self._learned = learned
        self._context = context
        self._noise = noise
        self._told: dict[State, dict[int, float]] = {}

    def root(self) -> State:
        """Return the row's own last tokens."""
        return self._context

    def shares(self, state: State) -> dict[int, float]:
        """Return the chances after a context."""
        assert isinstance(state, tuple)
        noise = None if self._noise is None else self._noise.at(len(state) - len(self._context))
        shares = self._lookup.shares(state, self._learned, noise)
        self._told[state] = shares
        return shares

    def descend(self, state: State, token: int) -> State | None:
        """Return the context one token further."""
        assert isinstance(state, tuple)
        return (token, *state)

    def source_of(self, state: State, token: int) -> int:
        """Return the bit of the table if it names the token."""
        told = self._told.get(state)
        return int(token in (self.shares(state) if told is None else told))


def _new_row(batch: Batch, index: int) -> _Row:
    # A row that comes back after preemption has shared its first part already.
    history = batch.history[index]
    return _Row(tenant=batch.sampling[index].tenant, answer_from=len(history), known=history)
