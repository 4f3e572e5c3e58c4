"""Where pages are placed: consecutive numbers where possible, with room to grow; fragmentation and growth counted."""

from __future__ import annotations

import random

import pytest

from paradraft.kv.free_runs import FreeRuns
from paradraft.kv.pages import PageCache
from support.kv_oracle import SlotOracle, counting


def test_rows_grow_in_one_run_beside_each_other() -> None:
    pages = PageCache(num_pages=64, page_size=4)
    rows = [pages.open(counting(1, 100 * index)) for index in range(4)]
    for length in range(1, 60):
        for row in rows:
            row.reserve(length)
    assert [row.num_runs for row in rows] == [1, 1, 1, 1]
    for row in rows:
        table = row.page_table.tolist()
        assert table == list(range(table[0], table[0] + 15))
    assert pages.stats().max_runs == 1
    assert pages.stats().grown_apart == 0


def test_growth_goes_elsewhere_when_the_next_page_is_taken() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    first, second = pages.open(counting(1)), pages.open(counting(1, 9))
    first.reserve(4)
    second.reserve(16)
    first.reserve(16)
    pages.check()
    assert len(first.page_table) == len(second.page_table) == 4
    stats = pages.stats()
    assert stats.grown_blocks == 3
    assert stats.grown_apart == first.num_runs - 1 >= 1
    assert stats.max_runs == first.num_runs
    assert stats.mean_runs == (first.num_runs + 1) / 2


def test_a_dirty_page_behind_a_row_is_cleaned_rather_than_jumped_over() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    row = pages.open(counting(1))
    row.reserve(4)
    checkpoint = row.checkpoint()
    row.reserve(12)
    row.stage(9)
    row.rollback(checkpoint)
    assert pages.counts().dirty == 2
    row.reserve(12)
    assert row.num_runs == 1
    assert pages.stats().cleaned_pages == 2


def test_growth_figures_outlive_the_row() -> None:
    pages = PageCache(num_pages=8, page_size=4)
    row = pages.open(counting(1))
    row.reserve(4)
    row.reserve(12)
    row.close()
    assert pages.stats().grown_blocks == 2
    assert pages.stats().closed_rows == 1


def test_fragmentation_is_the_unused_share_of_held_slots() -> None:
    pages = PageCache(num_pages=16, page_size=4)
    oracle = SlotOracle(pages)
    assert pages.stats().fragmentation == 0.0
    first = oracle.open(list(range(9)))
    oracle.prefill(first)
    assert pages.stats().unused_slots == 3
    second = oracle.open(list(range(9)))
    second.lease.reserve(12)
    second.lease.stage(1)
    assert pages.stats().unused_slots == 6
    assert pages.stats().fragmentation == pytest.approx(6 / 16)
    assert pages.stats().open_rows == 2
    assert pages.stats().shared_tokens == 8


def test_eviction_frees_runs_and_not_single_pages() -> None:
    pages = PageCache(num_pages=256, page_size=1)
    for start in range(0, 256, 32):
        row = pages.open(counting(32, 1000 * start))
        row.reserve(32)
        row.stage(32)
        row.commit(32, counting(0), counting(32, 1000 * start))
        row.close()
    row = pages.open(counting(1, 9))
    for length in range(1, 200):
        row.reserve(length)
    assert row.num_runs < 30
    pages.check()


def test_free_runs_agree_with_a_set_of_pages() -> None:
    draw, runs, free = random.Random(3), FreeRuns(40), set(range(40))
    for _ in range(3000):
        if free and draw.random() < 0.5:
            low, high = runs.largest() if draw.random() < 0.5 else draw.choice(runs.runs())
            first = draw.randrange(low, high)
            last = draw.randrange(first, high) + 1
            runs.cut(low, first, last)
            free -= set(range(first, last))
        elif len(free) < 40:
            page = draw.choice(sorted(set(range(40)) - free))
            runs.add(page, page + 1)
            free.add(page)
        assert {page for low, high in runs.runs() for page in range(low, high)} == free
        assert all(before[1] < after[0] for before, after in zip(runs.runs(), runs.runs()[1:], strict=False))
        assert runs.count == len(free)
        if free:
            low, high = runs.largest()
            assert high - low == max(end - start for start, end in runs.runs())
            assert runs.length_at(low) == high - low
    assert runs.length_at(99) == 0
