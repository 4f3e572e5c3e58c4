"""Whole pages are shared by content and tenant, and by nothing else."""

from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import CapacityError
from paradraft.kv import prefix
from paradraft.kv.pages import PageCache
from support.kv_oracle import Row, SlotOracle, counting

PAGE = 4


def warm(tokens: list[int], *, num_pages: int = 32, salt: str = "") -> tuple[SlotOracle, Row]:
    oracle = SlotOracle(PageCache(num_pages=num_pages, page_size=PAGE))
    row = oracle.open(tokens, salt)
    oracle.prefill(row)
    return oracle, row


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize(("common", "hit"), [(0, 0), (1, 0), (PAGE - 1, 0), (PAGE, PAGE), (PAGE + 1, PAGE)])
def test_a_hit_is_the_whole_pages_in_common(common: int, hit: int, is_closed: bool) -> None:
    oracle, first = warm(list(range(20)))
    if is_closed:
        first.lease.close()
    row = oracle.open([*range(common), *range(100, 110)])
    assert row.lease.committed == row.lease.shared_len == hit
    assert oracle.wrong_positions(row) == []
    oracle.prefill(row, chunk=3)
    assert oracle.wrong_positions(row) == []
    oracle.pages.check()


@pytest.mark.parametrize(("length", "hit"), [(0, 0), (1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (20, 16)])
def test_at_least_one_token_is_left_to_feed(length: int, hit: int) -> None:
    oracle, _ = warm(list(range(20)))
    assert oracle.open(list(range(length))).lease.committed == hit


def test_a_page_in_the_middle_is_found_only_behind_its_own_prefix() -> None:
    oracle, _ = warm([1, 2, 3, 4, 9, 9, 9, 9, 5])
    assert oracle.open([9, 9, 9, 9, 1]).lease.committed == 0
    assert oracle.open([1, 2, 3, 5, 9, 9, 9, 9, 1]).lease.committed == 0


def test_tenants_never_share() -> None:
    oracle, _ = warm(list(range(20)), salt="a")
    for salt in ("", "b", "aa", "A", "\ud800"):
        assert oracle.open(list(range(20)), salt).lease.committed == 0
    assert oracle.open(list(range(20)), "a").lease.committed == 16


def test_a_salt_cannot_be_smuggled_in_as_tokens() -> None:
    salt = "abcdabcdabcdabcd"
    oracle, _ = warm(list(range(9)), salt=salt)
    smuggled = [int.from_bytes(salt[i : i + 4].encode(), "little") for i in range(0, 16, 4)]
    assert oracle.open([*smuggled, *range(9)]).lease.committed == 0


def test_colliding_hashes_cost_a_hit_and_never_give_a_wrong_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_the_same(parent: bytes, tokens: bytes) -> prefix.PageContent:
        return prefix.PageContent(b"same", tokens)

    monkeypatch.setattr(prefix, "content_after", always_the_same)
    monkeypatch.setattr("paradraft.kv.lease.content_after", always_the_same)
    oracle, first = warm(list(range(9)))
    other = oracle.open(list(range(100, 109)))
    assert other.lease.committed == 0
    oracle.prefill(other)
    first.lease.close()
    other.lease.close()
    oracle.pages.check()


def test_no_reuse_takes_over_nothing_but_publishes() -> None:
    oracle, _ = warm(list(range(9)))
    row = oracle.open([*range(12), 50], reuse=False)
    assert row.lease.committed == 0
    oracle.prefill(row)
    assert oracle.open([*range(12), 60]).lease.committed == 12


def test_two_rows_that_fill_the_same_page_publish_one() -> None:
    oracle = SlotOracle(PageCache(num_pages=16, page_size=PAGE))
    first, second = oracle.open(list(range(10))), oracle.open(list(range(10)))
    oracle.prefill(first)
    oracle.prefill(second)
    oracle.pages.check()
    assert len(oracle.pages._pool.index) == 2
    second.lease.close()
    assert oracle.pages.counts().cached == 0
    third = oracle.open(list(range(10)))
    assert third.lease.page_table.tolist() == first.lease.page_table.tolist()[:2]
    first.lease.close()
    third.lease.close()
    assert oracle.pages.counts().cached == 2
    oracle.pages.check()


def test_a_duplicate_is_published_when_it_outlives_the_first() -> None:
    pages = PageCache(num_pages=5, page_size=PAGE)
    oracle = SlotOracle(pages)
    first, second = oracle.open(list(range(5))), oracle.open(list(range(5)))
    oracle.prefill(first)
    oracle.prefill(second)
    first.lease.close()
    big = pages.open(counting(12, 50))
    big.reserve(12)
    assert pages.counts().cached == 0
    second.lease.close()
    assert pages.open(counting(5)).committed == 4
    pages.check()


def test_a_preempted_row_finds_its_published_pages_again() -> None:
    oracle, row = warm(list(range(9)))
    row.tokens += [9]
    oracle.feed(row, 1, [(-1, 10), (0, 11), (1, 12), (1, 13)])
    oracle.settle(row, 1, [0, 1, 3], [14])
    row.lease.close()
    again = oracle.open(row.tokens)
    assert again.lease.committed == 12
    assert oracle.wrong_positions(again) == []


def test_a_growing_chat_finds_the_same_with_and_without_drafts() -> None:
    """Drafting must not cost prefix hits over many turns: neither by eviction nor by one page less."""
    hits = []
    for drafts in (0, 7):
        pages = PageCache(num_pages=80, page_size=PAGE)
        oracle, tokens, found = SlotOracle(pages), list(range(1000, 1030)), []
        for turn in range(5):
            row = oracle.open(tokens)
            found.append(row.lease.committed)
            oracle.prefill(row)
            row.tokens.append(10 * turn)
            for step in range(12):
                oracle.feed(row, 1, [(node - 1, 200 + turn) for node in range(drafts)])
                oracle.settle(row, 1, list(range(min(drafts, 2))), [step])
            row.lease.close()
            tokens = [*tokens, *range(500, 530)]
        hits.append(found)
    assert hits[1] == hits[0] == [0, 28, 60, 88, 120]


def test_prompts_in_chunks_publish_what_the_whole_prompt_does() -> None:
    for chunk in (7, 8, 29, 30):
        oracle = SlotOracle(PageCache(num_pages=32, page_size=8))
        row = oracle.open(list(range(30)))
        oracle.prefill(row, chunk)
        row.lease.close()
        again = oracle.open(list(range(30)))
        assert again.lease.committed == 24
        assert oracle.wrong_positions(again) == []


def test_a_second_request_on_the_same_pool_may_be_shorter_longer_or_follow_an_abort() -> None:
    oracle, first = warm(list(range(18)))
    first.lease.close()
    for length in (9, 30, 18):
        row = oracle.open(list(range(length)))
        oracle.prefill(row)
        assert oracle.wrong_positions(row) == []
        row.tokens.append(1)
        oracle.feed(row, 1, [(-1, 2)])
        row.lease.close()
    oracle.pages.check()


def test_token_arrays_of_other_width_hash_alike() -> None:
    oracle, _ = warm(list(range(9)))
    assert oracle.pages.open(counting(9).astype("int64")).committed == 8  # type: ignore[arg-type]
    assert oracle.pages.open(ints(list(range(9)))).committed == 8


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_row_opens_with_room_or_changes_nothing(is_closed: bool) -> None:
    oracle, first = warm(list(range(2 * PAGE + 1)), num_pages=8)
    if is_closed:
        first.lease.close()
    pages = oracle.pages
    before = (pages.counts(), pages.stats())
    most = PAGE * (8 if is_closed else 7)
    with pytest.raises(CapacityError):
        pages.open(counting(most), room=most + 1)
    assert (pages.counts(), pages.stats()) == before
    lease = pages.open(counting(most), room=most)
    assert lease.committed == 2 * PAGE
    assert len(lease.page_table) * PAGE == most
    pages.check()
