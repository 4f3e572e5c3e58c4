"""What a row of a drafting network remembers, and under which names its pages can be found."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import IntArray, ints
from paradraft.drafters.neural.rows import NeuralRow, slots_between
from paradraft.kv.pages import PageCache

PAGE = 4
TEXT = ints([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17])


def row_on(pages: PageCache, text: IntArray = TEXT, shift: int = 0) -> NeuralRow:
    return NeuralRow(lease=pages.open(text[shift:]), shift=shift)


def taps(first: int, count: int) -> np.ndarray:
    """Return taps that say which position they belong to."""
    return np.arange(first, first + count, dtype=np.float32)[:, None]


def write(row: NeuralRow, stop: int, text: IntArray = TEXT) -> list[int]:
    """Write what waits below stop and return its positions."""
    taken = row.take(stop)
    if taken is None:
        return []
    positions, values = taken
    assert values[:, 0].tolist() == positions.tolist()
    assert row.stage(len(positions))
    row.keep(len(positions), text)
    return positions.tolist()


def test_taps_wait_until_they_are_taken_and_are_taken_once():
    row = row_on(PageCache(num_pages=8, page_size=PAGE))
    row.follow(0, taps(0, 3))
    row.follow(3, taps(3, 2))
    assert row.num_held == 5
    assert write(row, 4) == [0, 1, 2, 3]
    assert row.tap_at(4) == [4.0]
    assert row.tap_at(3) is None
    assert write(row, 4) == []
    assert write(row, 9) == [4]


def test_tokens_that_the_target_feeds_again_are_not_taken_twice():
    row = row_on(PageCache(num_pages=8, page_size=PAGE))
    row.follow(0, taps(0, 3))
    row.follow(1, taps(1, 2))
    row.follow(2, taps(2, 3))
    assert write(row, 9) == [0, 1, 2, 3, 4]
    assert row.num_missing == 0


def test_a_row_with_the_same_beginning_finds_its_pages_and_wants_what_comes_behind():
    pages = PageCache(num_pages=8, page_size=PAGE)
    first = row_on(pages)
    first.follow(0, taps(0, 10))
    write(first, 10)
    second = row_on(pages)
    assert second.lease.committed == 8
    second.follow(4, taps(4, 6))
    assert write(second, 10) == [8, 9]
    assert second.num_missing == 0


def test_missing_positions_are_counted_and_pages_behind_them_are_nobodys():
    """Behind a gap the entries move up, so a page no longer holds what its place in the text says."""
    pages = PageCache(num_pages=16, page_size=PAGE)
    gapped = row_on(pages)
    gapped.follow(0, taps(0, 4))
    gapped.follow(6, taps(6, 6))
    assert write(gapped, 12) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert gapped.num_missing == 2
    assert row_on(pages).lease.committed == 4
    moved = np.concatenate([TEXT[:4], TEXT[6:]])
    assert row_on(pages, moved).lease.committed == 4
    gapped.lease.close()
    assert row_on(pages).lease.committed == 4


def test_a_gap_ahead_of_taps_that_still_wait_hides_the_pages_behind_those():
    pages = PageCache(num_pages=16, page_size=PAGE)
    row = row_on(pages)
    row.follow(0, taps(0, 2))
    assert write(row, 1) == [0]
    row.follow(5, taps(5, 8))
    assert write(row, 12) == [1, 5, 6, 7, 8, 9, 10, 11]
    assert row_on(pages).lease.committed == 0


def test_a_row_short_of_pages_goes_on_without():
    pages = PageCache(num_pages=2, page_size=PAGE)
    row = row_on(pages)
    row.follow(0, taps(0, 9))
    taken = row.take(9)
    assert taken is not None
    assert not row.stage(9)
    row.give_up(9)
    assert row.num_missing == 9
    row.follow(9, taps(9, 2))
    assert write(row, 11) == [9, 10]
    pages.check()


def test_entries_of_a_shifted_network_are_named_by_the_tokens_behind_them():
    pages = PageCache(num_pages=16, page_size=PAGE)
    row = row_on(pages, shift=1)
    row.follow(0, taps(0, 9))
    write(row, 8)
    assert row_on(pages, TEXT, shift=1).lease.committed == 8
    other_end = np.concatenate([TEXT[:8], ints([99, 98, 97])])
    assert row_on(pages, other_end, shift=1).lease.committed == 4


def test_scratch_slots_are_given_back():
    pages = PageCache(num_pages=8, page_size=PAGE)
    row = row_on(pages)
    row.follow(0, taps(0, 3))
    write(row, 3)
    assert row.stage(5)
    row.keep(0, TEXT)
    assert row.lease.committed == 3
    assert row.stage(5)
    pages.check()


@pytest.mark.parametrize(("first", "stop"), [(0, 3), (2, 9), (5, 5)])
def test_slots_follow_the_page_table(first: int, stop: int):
    pages = PageCache(num_pages=8, page_size=PAGE)
    holder = pages.open(TEXT)
    holder.reserve(PAGE)
    lease = pages.open(ints([40, 41]))
    lease.reserve(9)
    table = lease.page_table.tolist()
    expected = [table[at // PAGE] * PAGE + at % PAGE for at in range(first, stop)]
    assert slots_between(lease, first, stop, PAGE).tolist() == expected
