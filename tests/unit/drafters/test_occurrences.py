from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR

ORDERS = (1, 2, 4)
CONTEXT = 6


def slow_find(text: list[int], floor: int, limit: int, depth: int) -> list[tuple[int, list[int]]]:
    """Scan for the longest indexed n-gram that ends the text, before its end."""
    for order in reversed(ORDERS):
        tail = text[-order:]
        ends = range(len(text) - 2, floor + order - 2, -1)
        places = [end for end in ends if text[end - order + 1 : end + 1] == tail]
        if places and len(text) - floor >= order:
            return [(match_len(text, end, floor), text[end + 1 :][:depth]) for end in places[:limit]]
    return []


def match_len(text: list[int], end: int, floor: int) -> int:
    lengths = range(min(end - floor + 1, CONTEXT, len(text)), 0, -1)
    return next(length for length in lengths if text[end - length + 1 : end + 1] == text[-length:])


@pytest.mark.parametrize("vocab_size", [1, 3, 40])
@pytest.mark.parametrize("max_tokens", [50, 300, 5000])
def test_find_agrees_with_a_scan_while_the_text_grows_in_any_steps(vocab_size: int, max_tokens: int) -> None:
    rng = np.random.default_rng(vocab_size)
    index = TokenIndex(orders=ORDERS, max_tokens=max_tokens)
    text: list[int] = []
    for _ in range(120):
        new = rng.integers(0, vocab_size, int(rng.choice([1, 1, 2, 5, 23, 24, 60])))
        index.extend(ints(new))
        text += new.tolist()
        floor = max(len(text) - max_tokens, 0)
        assert index.recent(CONTEXT) == text[: -min(CONTEXT + 1, len(text) + 1) : -1]
        assert index.find(index.recent(CONTEXT), 6, 3) == slow_find(text, floor, 6, 3)


def test_tokens_one_by_one_and_all_at_once_give_the_same_index() -> None:
    text = np.random.default_rng(0).integers(0, 5, 700)
    at_once, singly = (TokenIndex(orders=ORDERS, max_tokens=1000) for _ in range(2))
    at_once.extend(ints(text))
    for token in text.tolist():
        singly.extend(ints([token]))
    for context in ([1, 2, 3, 4], [0, 0], [4]):
        assert at_once.find(context, 8, 4) == singly.find(context, 8, 4)


def test_the_most_recent_place_comes_first_and_the_end_itself_is_left_out() -> None:
    index = TokenIndex(orders=(1,), max_tokens=100)
    index.extend(ints([5, 1, 5, 2, 5]))
    assert index.find([5], 9, 2) == [(1, [2, 5]), (1, [1, 5])]


def test_what_follows_a_place_stops_at_the_end() -> None:
    index = TokenIndex(orders=(1,), max_tokens=100)
    index.extend(ints([5, 1, 2, 3]))
    assert index.after(0, 2) == [1, 2]
    assert index.after(2, 5) == [3]
    assert index.after(3, 5) == []


def test_a_match_goes_back_as_far_as_tokens_agree_and_are_known() -> None:
    index = TokenIndex(orders=(1,), max_tokens=8)
    index.extend(ints([9, 9, 1, 2, 3, 4, 7, 2, 3, 4]))
    assert index.find([4, 3, 2, 7], 1, 1) == [(3, [7])]
    index.extend(ints([1]))  # the nines have left the window
    assert index.find([2, 1, 9], 9, 1)[-1] == (1, [3])


def test_a_text_longer_than_the_window_keeps_its_places() -> None:
    index = TokenIndex(orders=(1,), max_tokens=10)
    index.extend(ints(range(100)))
    assert (index.end, index.floor, len(index)) == (100, 90, 10)
    assert index.recent(3) == [99, 98, 97]


def test_follow_appends_only_what_is_new() -> None:
    index = TokenIndex(orders=(1,), max_tokens=100)
    index.follow(ints([1, 2]))
    index.follow(ints([1, 2, 3]))
    index.follow(ints([1, 2, 3]))
    assert index.recent(9) == [3, 2, 1]


def test_dropped_tokens_are_not_found_and_their_memory_is_given_back() -> None:
    index = TokenIndex(orders=ORDERS, max_tokens=100_000)
    index.extend(ints(list(range(50)) * 1000))
    full = index.num_slots
    index.drop(49_900)
    assert len(index) == 100
    assert index.num_slots < full / 8
    assert index.find([49, 48, 47, 46], 9, 2) == [(4, [0, 1])]
    index.extend(ints([7]))
    assert index.recent(2) == [7, 49]


def test_separators_end_a_match() -> None:
    index = TokenIndex(orders=ORDERS, max_tokens=100)
    index.extend(ints([1, 2, SEPARATOR, 3, 4, 9]))
    assert index.find([4, 3, 2, 1], 9, 1) == [(2, [9])]


@pytest.mark.parametrize("text", [[7] * 6000, list(range(3)) * 2000], ids=["one token", "three tokens"])
def test_finding_in_a_looping_text_reads_few_tokens(text: list[int]) -> None:
    """The cost of a proposal is bounded by the number of places asked for, not by the text."""
    index = TokenIndex(orders=ORDERS, max_tokens=10_000)
    index.extend(ints(text))
    index._token_view = counting = CountingView(index._token_view)  # type: ignore[assignment]
    assert len(index.find(text[-5:][::-1], 8, 4)) == 8
    assert counting.num_reads <= 4 * 8 * 6


class CountingView:
    """Counts single reads of a memory."""

    def __init__(self, inner: memoryview) -> None:
        self._inner = inner
        self.num_reads = 0

    def __getitem__(self, key: int | slice) -> int | memoryview:
        self.num_reads += 1
        found: int | memoryview = self._inner[key]
        return found
