"""Pages go through their states without loss, and refusals change nothing."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import CapacityError, ConfigError, ProtocolError
from paradraft.kv.lease import Lease
from paradraft.kv.pages import SWEEP_EVERY, PageCache
from support.kv_oracle import SlotOracle, counting

NONE = ints([])


def prefilled(pages: PageCache, length: int, start: int = 0, *, salt: str = "") -> Lease:
    tokens = counting(length, start)
    lease = pages.open(tokens, salt=salt)
    lease.reserve(length)
    lease.stage(length - lease.committed)
    lease.commit(length - lease.committed, NONE, tokens)
    return lease


def states(pages: PageCache) -> tuple[int, int, int, int]:
    pages.check()
    counts = pages.counts()
    assert counts.free + counts.held + counts.cached + counts.dirty == counts.total
    return counts.free, counts.held, counts.cached, counts.dirty


@pytest.mark.parametrize(("num_pages", "page_size"), [(0, 4), (4, 0), (-1, 4)])
def test_sizes_below_one_are_refused(num_pages: int, page_size: int) -> None:
    with pytest.raises(ConfigError, match="is not allowed"):
        PageCache(num_pages=num_pages, page_size=page_size)


def test_a_row_holds_pages_and_gives_them_back() -> None:
    pages = PageCache(num_pages=10, page_size=4)
    lease = pages.open(counting(9))
    assert states(pages) == (10, 0, 0, 0)
    lease.reserve(9)
    assert states(pages) == (7, 3, 0, 0)
    lease.close()
    assert states(pages) == (10, 0, 0, 0)


def test_reserving_what_is_covered_changes_nothing() -> None:
    pages = PageCache(num_pages=10, page_size=4)
    lease = pages.open(counting(9))
    lease.reserve(9)
    table = lease.page_table
    lease.reserve(12)
    assert lease.page_table is table


def test_full_pages_are_cached_and_a_committed_tail_is_free_again() -> None:
    pages = PageCache(num_pages=10, page_size=4)
    prefilled(pages, 10).close()
    assert states(pages) == (8, 0, 2, 0)


def test_pages_with_rejected_slots_are_dirty_until_swept() -> None:
    pages = PageCache(num_pages=10, page_size=4)
    lease = prefilled(pages, 4)
    lease.reserve(14)
    lease.stage(7)
    lease.commit(1, NONE, counting(5))
    assert lease.staged == 0
    lease.close()
    assert states(pages) == (7, 0, 1, 2)
    pages.sweep()
    assert states(pages) == (9, 0, 1, 0)


def test_slots_staged_at_an_abort_are_dirty() -> None:
    pages = PageCache(num_pages=10, page_size=4)
    lease = pages.open(counting(6))
    lease.reserve(6)
    lease.stage(6)
    lease.close()
    assert states(pages) == (8, 0, 0, 2)


def test_a_dirty_page_changes_its_generation_before_it_is_handed_out() -> None:
    pages = PageCache(num_pages=2, page_size=4)
    lease = pages.open(counting(8))
    lease.reserve(8)
    lease.stage(8)
    table = lease.page_table.tolist()
    lease.close()
    before = [pages.generation(page) for page in table]
    again = pages.open(counting(8))
    again.reserve(8)
    assert [pages.generation(page) for page in again.page_table.tolist()] == [count + 1 for count in before]
    assert states(pages) == (0, 2, 0, 0)


def test_dirty_pages_are_swept_every_so_many_closed_rows() -> None:
    pages = PageCache(num_pages=2 * SWEEP_EVERY, page_size=4)
    for _ in range(SWEEP_EVERY):
        assert pages.stats().sweeps == 0
        lease = pages.open(counting(3))
        lease.reserve(3)
        lease.stage(3)
        lease.close()
    assert pages.stats().sweeps == 1
    assert states(pages)[3] == 0


def test_a_refused_reservation_changes_nothing() -> None:
    pages = PageCache(num_pages=6, page_size=4)
    prefilled(pages, 9).close()
    aborted = pages.open(counting(3, 50))
    aborted.reserve(3)
    aborted.stage(3)
    aborted.close()
    lease = pages.open(counting(30, 100))
    lease.reserve(8)
    before, table, stats = states(pages), lease.page_table.tolist(), astuple(pages.stats())
    with pytest.raises(CapacityError, match="5 more key-value pages are needed, but 4 of 6 are available"):
        lease.reserve(26)
    assert states(pages) == before
    assert lease.page_table.tolist() == table
    assert astuple(pages.stats()) == stats
    lease.reserve(24)
    assert pages.num_free == 0


def test_pages_that_can_be_handed_out_are_free_dirty_and_cached_ones() -> None:
    pages = PageCache(num_pages=6, page_size=4)
    prefilled(pages, 8).close()
    aborted = pages.open(counting(3, 50))
    aborted.reserve(3)
    aborted.stage(3)
    aborted.close()
    assert states(pages) == (3, 0, 2, 1)
    assert pages.num_free == 6
    lease = pages.open(counting(24, 100))
    lease.reserve(24)
    assert states(pages) == (0, 6, 0, 0)


@pytest.mark.parametrize("ending", ["stop", "length", "abort"])
def test_counts_are_equal_after_every_round_however_rows_end(ending: str) -> None:
    """Slots reserved or drafted ahead must not leak when a request ends."""
    pages = PageCache(num_pages=160, page_size=4)
    oracle, after = SlotOracle(pages), []
    for _ in range(3):
        rows = [oracle.open([*range(20), 100 + index]) for index in range(8)]
        for row in rows:
            oracle.prefill(row)
            row.tokens.append(7)
            row.lease.reserve(row.lease.committed + 30)
            oracle.feed(row, 1, [(-1, 1), (0, 2), (-1, 3)])
            if ending == "stop":
                oracle.settle(row, 1, [0], [5])
            elif ending == "length":
                oracle.settle(row, 1, [2], [5])
        for row in rows:
            row.lease.close()
        pages.sweep()
        after.append(states(pages))
    assert after[0] == after[1] == after[2]
    assert after[0][1] == 0


def test_a_closed_row_refuses_late_results_and_may_be_closed_again() -> None:
    """A row preempted while a pass is in flight must not be written by that pass's result."""
    pages = PageCache(num_pages=4, page_size=4)
    lease = pages.open(counting(4))
    lease.reserve(8)
    checkpoint = lease.checkpoint()
    lease.stage(5)
    lease.close()
    lease.close()
    before = states(pages)
    with pytest.raises(ProtocolError, match="closed"):
        lease.commit(4, NONE, counting(4))
    with pytest.raises(ProtocolError, match="closed"):
        lease.commit(0, NONE, counting(4))
    with pytest.raises(ProtocolError, match="closed"):
        lease.stage(0)
    with pytest.raises(ProtocolError, match="closed"):
        lease.reserve(1)
    with pytest.raises(ProtocolError, match="closed"):
        lease.rollback(checkpoint)
    assert states(pages) == before
    assert len(lease.page_table) == 0


def test_broken_books_are_named() -> None:
    pages = PageCache(num_pages=4, page_size=4)
    lease = pages.open(counting(4))
    lease.reserve(4)
    pages._pool.references[int(lease.page_table[0])] += 1
    with pytest.raises(AssertionError, match="a page's count is the number of rows that hold it"):
        pages.check()
