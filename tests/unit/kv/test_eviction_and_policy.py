"""What the cache forgets first, how much it may keep, and the reuse ratio that decides it."""

from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.kv.pages import PageCache
from paradraft.kv.reuse import LOW_RATIO, RAISED_SHARE, STEPS_IN_A_ROW, USUAL_SHARE, ReuseMeter
from support.kv_oracle import SlotOracle, counting


def run(pages: PageCache, length: int, start: int = 0) -> None:
    oracle = SlotOracle(pages)
    row = oracle.open(counting(length, start).tolist())
    oracle.prefill(row)
    row.lease.close()


def found(pages: PageCache, length: int, start: int = 0) -> int:
    lease = pages.open(counting(length, start))
    committed = lease.committed
    lease.close()
    return committed


def test_the_least_recently_used_prefix_goes_first() -> None:
    pages = PageCache(num_pages=10, page_size=2)
    run(pages, 4, 0)
    run(pages, 4, 100)
    run(pages, 4, 200)
    assert found(pages, 5, 0) == 4
    lease = pages.open(counting(1, 900))
    lease.reserve(2 * 6)
    assert found(pages, 5, 100) == 0
    assert found(pages, 5, 200) == 4
    assert found(pages, 5, 0) == 4
    assert pages.stats().evictions == 2
    pages.check()


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    pages = PageCache(num_pages=10, page_size=2)
    run(pages, 8)
    lease = pages.open(counting(1, 900))
    lease.reserve(2 * 7)
    assert found(pages, 9) == 6
    lease.close()
    lease = pages.open(counting(1, 900))
    lease.reserve(2 * 9)
    assert found(pages, 9) == 2


def test_a_prefix_found_through_a_duplicate_does_not_lose_its_beginning_first() -> None:
    pages = PageCache(num_pages=10, page_size=2)
    oracle = SlotOracle(pages)
    first, second = oracle.open([1, 2, 3]), oracle.open([1, 2, 3, 4, 5])
    oracle.prefill(first)
    oracle.prefill(second)
    first.lease.close()
    second.lease.close()
    assert pages.counts().cached == 2
    lease = pages.open(counting(1, 900))
    lease.reserve(2 * 9)
    assert pages.open(ints([1, 2, 3, 4, 5])).committed == 2


def test_held_pages_are_never_evicted() -> None:
    pages = PageCache(num_pages=10, page_size=2)
    oracle = SlotOracle(pages)
    row = oracle.open(list(range(9)))
    oracle.prefill(row)
    lease = pages.open(counting(1, 900))
    lease.reserve(2 * 5)
    assert pages.num_free == 0
    assert oracle.wrong_positions(row) == []
    assert found(pages, 9) == 8


def test_published_pages_keep_to_their_share_of_the_pool() -> None:
    pages = PageCache(num_pages=20, page_size=2)
    for start in range(0, 400, 40):
        run(pages, 10, start)
        assert pages.counts().cached <= USUAL_SHARE * 20
        pages.check()
    assert pages.counts().cached == 16
    assert pages.counts().free == 4


def test_held_published_pages_count_towards_the_share() -> None:
    pages = PageCache(num_pages=20, page_size=2)
    run(pages, 20, 500)
    assert pages.counts().cached == 10
    oracle = SlotOracle(pages)
    row = oracle.open(list(range(20)))
    oracle.prefill(row)
    assert pages.counts().cached == 6
    pages.check()


def test_a_row_above_the_share_gives_the_surplus_back_when_it_ends() -> None:
    pages = PageCache(num_pages=20, page_size=2)
    run(pages, 38)
    assert pages.counts().cached == 16
    assert found(pages, 38) == 32


def test_rows_may_take_more_than_the_private_share() -> None:
    pages = PageCache(num_pages=20, page_size=2)
    for start in range(0, 400, 40):
        run(pages, 10, start)
    lease = pages.open(counting(1, 900))
    lease.reserve(40)
    assert pages.counts().held == 20


def test_the_ratio_counts_positions_in_pages_taken_over() -> None:
    pages = PageCache(num_pages=32, page_size=4)
    oracle = SlotOracle(pages)
    first = oracle.open(list(range(12)))
    oracle.prefill(first)
    assert pages.note_step() == 0.0
    second = oracle.open([*range(8), 50, 51])
    oracle.feed(second, 2, [])
    oracle.settle(second, 2, [], [])
    assert pages.note_step() == pytest.approx(8 / 10)
    first.tokens.append(1)
    second.tokens.append(1)
    oracle.feed(first, 1, [(-1, 5)])
    oracle.feed(second, 1, [(-1, 5)])
    assert pages.note_step() == pytest.approx(8 / (14 + 12))
    assert pages.stats().cache_reuse_ratio == pytest.approx((8 + 8) / (12 + 10 + 26))
    assert pages.stats().step_reuse_ratio == pytest.approx(8 / 26)


def test_a_step_without_reads_is_no_step() -> None:
    meter = ReuseMeter()
    for _ in range(2 * STEPS_IN_A_ROW):
        assert meter.end_step() == 0.0
    assert meter.share == USUAL_SHARE
    assert meter.ratio == 0.0


def steps(meter: ReuseMeter, ratio: float, count: int) -> None:
    for _ in range(count):
        meter.read(round(ratio * 1000), 1000)
        meter.end_step()


def test_the_share_rises_after_five_low_steps_in_a_row() -> None:
    meter = ReuseMeter()
    steps(meter, 0.64, 4)
    assert meter.share == USUAL_SHARE == 0.80
    steps(meter, LOW_RATIO, 1)
    steps(meter, 0.64, 4)
    assert meter.share == USUAL_SHARE
    steps(meter, 0.64, 1)
    assert meter.share == RAISED_SHARE == 0.85


def test_the_share_goes_back_after_five_good_steps_in_a_row() -> None:
    meter = ReuseMeter()
    steps(meter, 0.1, 5)
    steps(meter, 0.65, 4)
    steps(meter, 0.1, 1)
    steps(meter, 0.65, 4)
    assert meter.share == RAISED_SHARE
    steps(meter, 0.65, 1)
    assert meter.share == USUAL_SHARE


def test_the_raised_share_keeps_more_and_the_usual_one_evicts_it() -> None:
    pages = PageCache(num_pages=20, page_size=2)

    def low_steps() -> None:
        lease = pages.open(counting(2, 7000), reuse=False)
        lease.reserve(2)
        for _ in range(STEPS_IN_A_ROW):
            checkpoint = lease.checkpoint()
            lease.stage(1)
            lease.rollback(checkpoint)
            pages.note_step()
        lease.close()

    low_steps()
    assert pages.stats().prefix_share == RAISED_SHARE
    for start in range(0, 400, 40):
        run(pages, 10, start)
    assert pages.counts().cached == 17
    pages.note_step()
    row = pages.open(counting(5, 360))
    assert row.committed == 4
    row.reserve(5)
    for _ in range(STEPS_IN_A_ROW):
        checkpoint = row.checkpoint()
        row.stage(1)
        row.rollback(checkpoint)
        pages.note_step()
    assert pages.stats().prefix_share == USUAL_SHARE
    assert pages.counts().cached + 2 == 16
    pages.check()


def test_dropped_prefixes_are_not_found_again() -> None:
    pages = PageCache(num_pages=10, page_size=2)
    run(pages, 6)
    held = pages.open(counting(3))
    pages.drop_cached()
    assert pages.counts().cached == 0
    assert found(pages, 7) == 2
    held.close()
    pages.check()
