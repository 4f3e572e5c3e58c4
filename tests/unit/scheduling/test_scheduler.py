from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paradraft.core.records import Plan
from paradraft.scheduling.length import ALONE, FixedLength, Length, Others
from paradraft.scheduling.ports import RowNeed
from paradraft.scheduling.scheduler import Scheduler


def need(row: int, known: int, committed: int, *, remaining: int = 100, gamma: int | None = None) -> RowNeed:
    return RowNeed(row=row, known_len=known, committed=committed, remaining=remaining, gamma=gamma, max_chunk=2**31 - 1)


class FakeRows:
    """Rows over a pool of single-slot pages."""

    def __init__(self, running: list[RowNeed], waiting: list[RowNeed] = (), slots: int = 10**6) -> None:  # type: ignore[assignment]
        self._running = list(running)
        self._waiting = list(waiting)
        self._slots = slots
        self.reserved = {row.row: row.committed for row in running}
        self.preempted: list[int] = []

    @property
    def num_admissible(self) -> int:
        return len(self._waiting)

    def running(self) -> Sequence[RowNeed]:
        return list(self._running)

    def admit(self) -> RowNeed | None:
        if not self._waiting:
            return None
        newcomer = self._waiting.pop(0)
        self._running.append(newcomer)
        self.reserved[newcomer.row] = 0
        return newcomer

    def reserve(self, row: int, length: int) -> bool:
        others = sum(size for other, size in self.reserved.items() if other != row)
        if others + length > self._slots:
            return False
        self.reserved[row] = max(length, self.reserved[row])
        return True

    def preempt(self, row: int) -> None:
        self.preempted.append(row)
        self._running = [other for other in self._running if other.row != row]
        del self.reserved[row]


def plan_of(rows: FakeRows, *, gamma: int = 4, budget: int = 64) -> Plan:
    return Scheduler(rows=rows, lengths=FixedLength(gamma=gamma, nodes=gamma), max_step_tokens=budget).plan()


def test_nothing_to_do_gives_an_empty_plan() -> None:
    assert len(plan_of(FakeRows([])).rows) == 0


def test_decoding_rows_come_before_prompts_and_newcomers() -> None:
    plan = plan_of(FakeRows([need(0, 40, 8), need(1, 11, 10)], [need(2, 30, 0)]))
    assert plan.rows.tolist() == [1, 0, 2]
    assert plan.num_pending.tolist() == [1, 32, 27]
    assert plan.num_nodes.tolist() == [4, 0, 0]


def test_the_budget_holds_and_prompts_are_cut_into_chunks() -> None:
    plan = plan_of(FakeRows([], [need(0, 100, 0), need(1, 5, 0)]), budget=16)
    assert plan.rows.tolist() == [0]
    assert plan.num_pending.tolist() == [16]
    assert "chunk" in plan.reasons[0]


def test_drafts_never_reach_past_the_last_token_of_a_request() -> None:
    plan = plan_of(FakeRows([need(0, 11, 10, remaining=3), need(1, 11, 10, remaining=1)]))
    assert plan.depth.tolist() == [2, 0]


def test_a_request_may_turn_speculation_off() -> None:
    assert plan_of(FakeRows([need(0, 11, 10, gamma=0)])).num_nodes.tolist() == [0]


def test_short_pages_cost_drafts_before_they_cost_a_row() -> None:
    rows = FakeRows([need(0, 11, 10), need(1, 11, 10)], slots=26)
    plan = plan_of(rows)
    assert plan.rows.tolist() == [0, 1]
    assert plan.num_nodes.tolist() == [4, 0]
    assert rows.preempted == []


def test_the_youngest_row_is_preempted() -> None:
    rows = FakeRows([need(0, 11, 10), need(1, 11, 10), need(2, 11, 10)], slots=30)
    plan = plan_of(rows, gamma=0)
    assert rows.preempted == [2]
    assert plan.rows.tolist() == [0, 1]


def test_a_row_without_younger_ones_gives_way_itself() -> None:
    rows = FakeRows([need(0, 11, 10), need(1, 11, 10)], slots=21)
    plan = plan_of(rows, gamma=0)
    assert plan.rows.tolist() == [0]
    assert rows.preempted == [1]


def test_a_chunk_limit_of_a_row_holds() -> None:
    row = replace(need(0, 100, 0), max_chunk=7)
    assert plan_of(FakeRows([row])).num_pending.tolist() == [7]


def test_drafts_leave_every_other_row_and_newcomer_a_token() -> None:
    rows = FakeRows([need(0, 11, 10), need(1, 11, 10), need(2, 30, 10)], [need(3, 30, 0)])
    plan = plan_of(rows, gamma=8, budget=8)
    assert plan.rows.tolist() == [0, 1, 2]
    assert plan.num_nodes.tolist() == [4, 0, 0]
    assert plan.num_pending.tolist() == [1, 1, 2]


def test_a_tree_wider_than_the_budget_is_cut_to_it() -> None:
    lengths = FixedLength(gamma=3, nodes=100)
    plan = Scheduler(rows=FakeRows([need(0, 11, 10)]), lengths=lengths, max_step_tokens=12).plan()
    assert (plan.num_nodes.tolist(), plan.depth.tolist()) == ([11], [3])


def test_the_length_policy_hears_who_shares_the_pass() -> None:
    heard: list[Others] = []

    class Listening(FixedLength):
        def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:
            heard.append(others)
            return super().choose(row, gamma, cap)

    rows = FakeRows([need(0, 11, 10), need(1, 11, 10), need(2, 30, 10)], [need(3, 30, 0)])
    Scheduler(rows=rows, lengths=Listening(gamma=4, nodes=4), max_step_tokens=64).plan()
    assert heard == [Others(rows=2, tokens=2), Others(rows=2, tokens=6)]


def test_a_node_is_priced_for_every_row_that_waits_for_it() -> None:
    alone = plan_of(FakeRows([need(0, 11, 10)]))
    together = plan_of(FakeRows([need(row, 11, 10) for row in range(4)]))
    assert together.node_cost == 4 * alone.node_cost > 0
