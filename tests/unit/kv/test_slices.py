"""Private slices: stage, commit a chain or a path of a tree, roll back."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.kv.lease import Lease
from paradraft.kv.pages import PageCache
from support.kv_oracle import SlotOracle, counting

NONE = ints([])


def row_of(pages: PageCache, committed: int, slots: int) -> Lease:
    tokens = counting(slots)
    lease = pages.open(tokens)
    lease.reserve(slots)
    lease.stage(committed)
    lease.commit(committed, NONE, tokens)
    return lease


def test_a_chain_needs_no_moves() -> None:
    lease = row_of(PageCache(num_pages=8, page_size=4), 5, 20)
    lease.stage(6)
    assert len(lease.commit(1, ints([0, 1, 2]), counting(20))) == 0
    assert (lease.committed, lease.staged) == (9, 0)


def test_a_path_of_a_tree_is_moved_together_across_pages() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    lease = row_of(pages, 5, 16)
    table = lease.page_table.tolist()
    lease.stage(8)
    moves = lease.commit(1, ints([0, 3, 6]), counting(16))

    def slot(index: int) -> int:
        return table[index // 4] * 4 + index % 4

    assert moves.sources.tolist() == [slot(9), slot(12)]
    assert moves.destinations.tolist() == [slot(7), slot(8)]
    assert moves.sources.dtype == moves.destinations.dtype == np.int32
    assert moves.sources.flags.c_contiguous
    assert moves.destinations.flags.c_contiguous
    assert lease.committed == 9
    pages.check()


def test_non_contiguous_pages_read_back_right_after_tree_commits() -> None:
    """The next slots of a row need not be consecutive."""
    pages = PageCache(num_pages=12, page_size=2)
    fillers = [pages.open(counting(2, 10 * index)) for index in range(12)]
    for filler in fillers:
        filler.reserve(2)
    fillers.sort(key=lambda filler: int(filler.page_table[0]))
    for index in (3, 9, 4, 11, 0, 7):
        fillers[index].close()
    oracle = SlotOracle(pages)
    row = oracle.open([1, 2, 3])
    oracle.prefill(row)
    row.tokens.append(4)
    oracle.feed(row, 1, [(-1, 5), (-1, 6), (1, 7), (0, 8), (2, 9)])
    oracle.settle(row, 1, [1, 2, 4], [3])
    assert row.tokens == [1, 2, 3, 4, 6, 7, 9, 3]
    assert row.lease.num_runs > 2
    assert oracle.wrong_positions(row) == []
    pages.check()


@pytest.mark.parametrize(
    ("kept", "path", "num_tokens"),
    [
        (6, [], 20),  # more than staged
        (-1, [], 20),
        (1, [4], 20),  # beyond the slice
        (1, [0, 0], 20),
        (1, [2, 1], 20),
        (1, [-1, 0], 20),
        (1, [0, 1], 7),  # one token too few
    ],
)
def test_a_commit_that_does_not_fit_the_slice_is_refused_and_changes_nothing(
    kept: int, path: list[int], num_tokens: int
) -> None:
    pages = PageCache(num_pages=8, page_size=4)
    lease = row_of(pages, 5, 20)
    lease.stage(5)
    with pytest.raises(ProtocolError, match="does not fit 5 staged slots"):
        lease.commit(kept, ints(path), counting(num_tokens))
    assert (lease.committed, lease.staged) == (5, 5)
    pages.check()


def test_a_slice_needs_reserved_slots_and_a_settled_predecessor() -> None:
    lease = row_of(PageCache(num_pages=8, page_size=4), 5, 8)
    with pytest.raises(ProtocolError, match="reserve enough slots"):
        lease.stage(4)
    with pytest.raises(ProtocolError, match="-1 slots cannot be staged"):
        lease.stage(-1)
    lease.stage(2)
    with pytest.raises(ProtocolError, match="Settle the slice"):
        lease.stage(1)


def test_a_shared_page_is_never_written() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    first = row_of(pages, 9, 9)
    second = pages.open(counting(9))
    second.committed = 6  # what a broken caller would do
    second.reserve(12)
    with pytest.raises(ProtocolError, match="shared page"):
        second.stage(1)
    assert first.committed == 9


def test_rollback_drops_the_slice_and_the_pages_added_for_it() -> None:
    """Falling back after a failed draft keeps every committed token and leaks no page."""
    pages = PageCache(num_pages=8, page_size=4)
    lease = row_of(pages, 6, 8)
    before, table = pages.counts(), lease.page_table.tolist()
    checkpoint = lease.checkpoint()
    lease.reserve(17)
    lease.stage(11)
    lease.rollback(checkpoint)
    assert (lease.committed, lease.staged) == (6, 0)
    assert lease.page_table.tolist() == table
    pages.check()
    assert pages.counts().dirty == 3
    pages.sweep()
    assert pages.counts() == before
    lease.reserve(17)
    lease.close()
    assert pages.counts().dirty == 1  # the new pages were not written again; the one kept holds a dropped slot


def test_rollback_of_a_slice_within_reserved_pages_keeps_them() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    lease = row_of(pages, 5, 16)
    table = lease.page_table
    checkpoint = lease.checkpoint()
    lease.stage(9)
    lease.rollback(checkpoint)
    assert lease.page_table is table
    lease.stage(11)


def test_rollback_into_a_published_page_takes_it_out_of_the_cache() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    oracle = SlotOracle(pages)
    row = oracle.open(list(range(6)))
    oracle.prefill(row)
    checkpoint = row.lease.checkpoint()
    row.tokens += [6, 7, 8]
    oracle.prefill(row)
    row.lease.rollback(checkpoint)
    assert row.lease.committed == 6
    assert pages.open(counting(9)).committed == 4
    row.tokens[6:] = [60, 70]
    oracle.prefill(row)
    assert oracle.wrong_positions(row) == []
    pages.check()
    row.lease.close()
    assert pages.open(counting(9)).committed == 4
    assert pages.open(ints([0, 1, 2, 3, 4, 5, 60, 70, 1])).committed == 8


def test_rollback_into_a_page_that_others_read_leaves_it_to_them() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    oracle = SlotOracle(pages)
    row = oracle.open(list(range(6)))
    oracle.prefill(row)
    checkpoint = row.lease.checkpoint()
    row.tokens += [6, 7, 8]
    oracle.prefill(row)
    other = oracle.open(list(range(9)))
    row.lease.rollback(checkpoint)
    assert row.lease.committed == 4
    row.tokens[6:] = [60, 70]
    oracle.prefill(row)
    assert oracle.wrong_positions(row) == []
    assert oracle.wrong_positions(other) == []
    pages.check()


def test_rollback_to_a_page_boundary_keeps_what_lies_behind_findable() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    oracle = SlotOracle(pages)
    row = oracle.open(list(range(4)))
    oracle.prefill(row)
    checkpoint = row.lease.checkpoint()
    row.tokens += [4, 5, 6, 7]
    oracle.prefill(row)
    row.lease.rollback(checkpoint)
    assert row.lease.committed == 4
    assert pages.open(counting(9)).committed == 8
    pages.check()


def test_a_foreign_or_later_checkpoint_is_refused() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    lease, other = row_of(pages, 3, 8), row_of(pages, 3, 8)
    with pytest.raises(ProtocolError, match="does not lie behind"):
        lease.rollback(other.checkpoint())
    early = lease.checkpoint()
    lease.stage(2)
    lease.commit(2, NONE, counting(5))
    late = lease.checkpoint()
    lease.rollback(early)
    with pytest.raises(ProtocolError, match="does not lie behind"):
        lease.rollback(late)


def test_page_tables_handed_out_keep_what_they_showed() -> None:
    pages = PageCache(num_pages=40, page_size=1)
    lease = pages.open(counting(40))
    checkpoint = lease.checkpoint()
    lease.reserve(3)
    short = lease.page_table
    assert lease.page_table is short
    with pytest.raises(ValueError, match="read-only"):
        short[0] = 9
    lease.reserve(30)
    view, shown = lease.page_table, lease.page_table.tolist()
    assert short.tolist() == shown[:3]
    lease.rollback(checkpoint)
    blocker = pages.open(counting(5, 9))
    blocker.reserve(5)
    lease.reserve(30)
    assert lease.page_table.tolist() != shown
    assert view.tolist() == shown
