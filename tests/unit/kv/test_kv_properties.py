"""Any sequence of operations keeps the laws, and every committed position reads back its own token and history."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paradraft.core.errors import CapacityError
from paradraft.kv.pages import PageCache
from paradraft.kv.records import Checkpoint
from support.kv_oracle import Row, SlotOracle

TOKENS = st.integers(0, 1)  # few different ones, so that prefixes meet
SALTS = st.sampled_from(["", "tenant"])


class KvMachine(RuleBasedStateMachine):
    """Plays the engine with several rows on a small pool."""

    @initialize(num_pages=st.integers(3, 14), page_size=st.integers(1, 3))
    def start(self, num_pages: int, page_size: int) -> None:
        self.pages = PageCache(num_pages=num_pages, page_size=page_size)
        self.oracle = SlotOracle(self.pages)
        self.rows: list[Row] = []
        self.checkpoints: dict[int, list[Checkpoint]] = {}

    def pick(self, data: st.DataObject, *, staged: bool) -> Row | None:
        rows = [row for row in self.rows if (row.lease.staged > 0) == staged]
        return data.draw(st.sampled_from(rows)) if rows else None

    @precondition(lambda self: len(self.rows) < 4)
    @rule(tokens=st.lists(TOKENS, min_size=1, max_size=9), salt=SALTS, reuse=st.booleans())
    def open(self, tokens: list[int], salt: str, reuse: bool) -> None:
        row = self.oracle.open(tokens, salt, reuse=reuse)
        assert row.lease.committed % self.pages.page_size == 0
        assert row.lease.committed < len(tokens)
        assert reuse or row.lease.committed == 0
        self.rows.append(row)
        self.checkpoints[row.lease.serial] = []

    @rule(data=st.data(), more=st.integers(0, 12))
    def reserve(self, data: st.DataObject, more: int) -> None:
        if row := self.pick(data, staged=False):
            self.try_to_reserve(row, row.lease.committed + more)

    def try_to_reserve(self, row: Row, length: int) -> bool:
        before, table = self.pages.counts(), row.lease.page_table.tolist()
        possible = -(-length // self.pages.page_size) - len(table) <= self.pages.num_free
        clean = {page for page in range(self.pages.num_pages) if page not in self.pages._pool.dirty}
        generations = [self.pages.generation(page) for page in range(self.pages.num_pages)]
        try:
            row.lease.reserve(length)
        except CapacityError:
            assert not possible
            assert (self.pages.counts(), row.lease.page_table.tolist()) == (before, table)
            return False
        assert possible
        for page in row.lease.page_table.tolist()[len(table) :]:
            assert page in clean or self.pages.generation(page) == generations[page] + 1
        return True

    @rule(data=st.data(), tree=st.lists(st.tuples(st.integers(0, 99), TOKENS), max_size=5))
    def feed(self, data: st.DataObject, tree: list[tuple[int, int]]) -> None:
        row = self.pick(data, staged=False)
        if row is None or row.lease.committed == len(row.tokens):
            return
        self.checkpoints[row.lease.serial].append(row.lease.checkpoint())
        pending = len(row.tokens) - row.lease.committed
        fed = data.draw(st.integers(1, pending))
        nodes = [(draw % (index + 1) - 1, token) for index, (draw, token) in enumerate(tree)] if fed == pending else []
        if self.try_to_reserve(row, row.lease.committed + fed + len(nodes)):
            self.oracle.feed(row, fed, nodes)

    @rule(data=st.data(), next_token=TOKENS)
    def commit(self, data: st.DataObject, next_token: int) -> None:
        row = self.pick(data, staged=True)
        if row is None:
            return
        kept = row.staged_pending
        leaf = data.draw(st.integers(-1, len(row.nodes) - 1))
        path = row.path_to(leaf)
        is_scored = row.lease.committed + kept == len(row.tokens)
        self.oracle.settle(row, kept, path, [next_token] if is_scored else [])
        assert row.lease.staged == 0

    @rule(data=st.data(), next_token=TOKENS, is_retold=st.booleans())
    def rollback(self, data: st.DataObject, next_token: int, is_retold: bool) -> None:
        rows = [row for row in self.rows if self.checkpoints[row.lease.serial]]
        if not rows:
            return
        row = data.draw(st.sampled_from(rows))
        known = self.checkpoints[row.lease.serial]
        index = data.draw(st.integers(0, len(known) - 1))
        checkpoint = known[index]
        row.lease.rollback(checkpoint)
        del known[index:]
        while known and known[-1].committed > row.lease.committed:
            known.pop()
        assert row.lease.staged == 0
        assert checkpoint.committed - self.pages.page_size < row.lease.committed <= checkpoint.committed
        if is_retold:
            row.tokens[row.lease.committed :] = [next_token]

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if self.rows:
            row = data.draw(st.sampled_from(self.rows))
            self.rows.remove(row)
            row.lease.close()

    @rule()
    def sweep(self) -> None:
        self.pages.sweep()
        assert self.pages.counts().dirty == 0

    @rule()
    def note_step(self) -> None:
        assert 0.0 <= self.pages.note_step() <= 1.0

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "pages"):
            return
        self.pages.check()
        counts = self.pages.counts()
        held = {page for row in self.rows for page in row.lease.page_table.tolist()}
        assert counts.held == len(held)
        assert self.pages.num_free == counts.total - counts.held
        assert 0.0 <= self.pages.stats().fragmentation <= 1.0

    @invariant()
    def every_position_reads_back(self) -> None:
        for row in getattr(self, "rows", []):
            assert self.oracle.wrong_positions(row) == []


KvMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
TestKv = KvMachine.TestCase
