"""Which rows run in a step: decoding rows first, then prompts in chunks, then newcomers, within a token budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paradraft.core.arrays import ints
from paradraft.core.records import Hindrance, Plan
from paradraft.scheduling.length import LengthPolicy, Others
from paradraft.scheduling.ports import RowNeed, Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class _Share:
    """A row's part of the step."""

    row: int
    num_pending: int
    num_nodes: int
    depth: int
    reason: str
    hindrance: Hindrance | None = None


class Scheduler:
    """Policy without tensors. It changes rows only through the Rows port."""

    def __init__(self, *, rows: Rows, lengths: LengthPolicy, max_step_tokens: int) -> None:
        self._rows = rows
        self._lengths = lengths
        self._max_step_tokens = max_step_tokens

    def plan(self) -> Plan:
        """Return the rows of the next step; an empty plan means there is nothing to do.

        When pages run out the youngest row is preempted, never one that this step already counts on.
        """
        running = self._rows.running()
        sheet = _Sheet(
            standing=[need.row for need in running],
            budget=self._max_step_tokens,
            num_admissible=self._rows.num_admissible,
        )
        for need in sorted(running, key=lambda need: need.num_pending > 1):
            self._add_share(need, sheet)
        while sheet.budget > 0 and (newcomer := self._rows.admit()) is not None:
            sheet.welcome(newcomer.row)
            if not self._add_share(newcomer, sheet):
                break
        return sheet.as_plan(self._lengths)

    def observe(self, row: int, drafted: int, accepted: int, nodes: int = 0) -> None:
        """Pass a round's outcome on to the length policy."""
        self._lengths.observe(row, drafted, accepted, nodes)

    def forget(self, row: int) -> None:
        """Drop what is known of a row."""
        self._lengths.forget(row)

    def _add_share(self, need: RowNeed, sheet: _Sheet) -> bool:
        """Add the row's share if there is room for it."""
        if sheet.budget <= 0 or need.row not in sheet.standing:
            return False
        share = self._share_of(need, sheet)
        if not self._make_room(need, share, sheet):
            return False
        if share.num_nodes and not self._rows.reserve(need.row, need.committed + share.num_pending + share.num_nodes):
            share = replace(share, num_nodes=0, depth=0, reason="plain: no pages", hindrance=Hindrance.PAGES)
        sheet.add(share)
        return True

    def _share_of(self, need: RowNeed, sheet: _Sheet) -> _Share:
        if need.num_pending > 1:
            chunk = min(need.num_pending, need.max_chunk, sheet.budget)
            reason = "prefill" if chunk == need.num_pending else "prefill: chunk"
            return _Share(row=need.row, num_pending=chunk, num_nodes=0, depth=0, reason=reason)
        # Drafts are a gamble: they never take a token that another row is sure to need.
        room = max(0, sheet.budget - 1 - sheet.num_unserved(need.row))
        # The last token of a request comes with the pass, so drafting all that remain would waste a node.
        cap = max(0, min(need.remaining - 1, room))
        length = self._lengths.choose(need.row, need.gamma, cap, sheet.others(need.row))
        nodes = min(length.nodes, room)
        hindrance = length.hindrance
        if not nodes and hindrance is None:
            hindrance = Hindrance.LIMIT if need.remaining <= 1 else Hindrance.LOAD
        return _Share(
            row=need.row,
            num_pending=1,
            num_nodes=nodes,
            depth=min(length.depth, nodes),
            reason=length.reason,
            hindrance=hindrance,
        )

    def _make_room(self, need: RowNeed, share: _Share, sheet: _Sheet) -> bool:
        """Reserve pages for the row's known tokens, preempting younger rows; False if it was preempted itself."""
        while not self._rows.reserve(need.row, need.committed + share.num_pending):
            victim = sheet.youngest_spare()
            self._rows.preempt(victim)
            if victim == need.row:
                return False
        return True


class _Sheet:
    """The plan in the making. `standing` are the rows that run, oldest first, preempted ones struck out."""

    def __init__(self, *, standing: list[int], budget: int, num_admissible: int) -> None:
        self.standing = standing
        self.budget = budget
        self._num_admissible = num_admissible
        self._num_spent = 0
        self._shares: list[_Share] = []

    def add(self, share: _Share) -> None:
        self._shares.append(share)
        num_tokens = share.num_pending + share.num_nodes
        self.budget -= num_tokens
        self._num_spent += num_tokens

    def welcome(self, row: int) -> None:
        self.standing.append(row)
        self._num_admissible -= 1

    def num_unserved(self, row: int) -> int:
        """Return how many other rows run, or may be admitted in this step, and have no share yet."""
        return len(self.standing) - len(self._shares) - (row in self.standing) + self._num_admissible

    def others(self, row: int) -> Others:
        unserved = self.num_unserved(row) - self._num_admissible
        return Others(rows=len(self._shares) + unserved, tokens=self._num_spent + unserved)

    def youngest_spare(self) -> int:
        """Strike out and return the youngest row that the step does not count on yet."""
        counted_on = {share.row for share in self._shares}
        spare = next(row for row in reversed(self.standing) if row not in counted_on)
        self.standing.remove(spare)
        return spare

    def as_plan(self, lengths: LengthPolicy) -> Plan:
        decoding = sum(share.num_pending == 1 for share in self._shares)
        node_cost, draft_cost = lengths.prices(sum(share.num_pending for share in self._shares))
        return Plan(
            rows=ints([share.row for share in self._shares]),
            num_pending=ints([share.num_pending for share in self._shares]),
            num_nodes=ints([share.num_nodes for share in self._shares]),
            depth=ints([share.depth for share in self._shares]),
            reasons=tuple([share.reason for share in self._shares]),
            hindrances=tuple([share.hindrance for share in self._shares]),
            # A node pays in the tokens of all rows that share the pass, so its price counts once for each of them.
            node_cost=decoding * node_cost,
            draft_cost=decoding * draft_cost,
        )
