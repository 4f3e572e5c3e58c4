from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.votes import Body, Voter, find_voters, vote

FLAT = Body(source=0, caution=(2.0, 1.0, 0.5), is_recency_weighted=False)
RECENT = Body(source=1, caution=(2.0, 1.0, 0.5), is_recency_weighted=True)


def slow_shares(voters: list[Voter], words: list[int], depth: int) -> dict[int, float]:
    """The formula of votes.py by recursion from the shortest match up."""
    shares: dict[int, float] = {}
    for length in sorted({length for length, _, _ in voters}):
        caution = FLAT.caution[min(length + depth, 3) - 1]
        pool = [(weight, word) for (other, weight, _), word in zip(voters, words, strict=True) if other >= length]
        total = sum(weight for weight, _ in pool)
        shares = {
            word: (sum(weight for weight, said in pool if said == word) + caution * shares.get(word, 0.0))
            / (total + caution)
            for word in {*shares, *(word for _, word in pool)}
        }
    return shares


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([1], [4]),
        ([3, 3, 3], [4, 4, 4]),
        ([5, 2, 1, 1], [4, 7, 7, 9]),
        ([2, 2, 1], [4, 7, 4]),
        ([9, 4, 4, 3, 1], [1, 2, 1, 3, 3]),
    ],
)
def test_shares_follow_the_blend_of_counts(depth: int, lengths: list[int], words: list[int]) -> None:
    voters: list[Voter] = [(length, 1.0 / rank, []) for rank, length in enumerate(lengths, start=1)]
    shares: dict[int, float] = {}
    left = vote(FLAT, voters, words, depth, 1.0, shares)
    assert shares == pytest.approx(slow_shares(voters, words, depth))
    assert sum(shares.values()) + left == pytest.approx(1.0)


def test_a_second_body_spreads_only_what_the_first_leaves() -> None:
    shares: dict[int, float] = {}
    left = vote(FLAT, [(1, 1.0, [])], [4], 0, 1.0, shares)
    assert vote(FLAT, [(1, 1.0, [])], [5], 0, left, shares) == pytest.approx((2 / 3) ** 2)
    assert shares == pytest.approx({4: 1 / 3, 5: 2 / 9})


def index_of(*tokens: int) -> TokenIndex:
    index = TokenIndex(orders=(1, 2), max_tokens=100)
    index.extend(ints(tokens))
    return index


def test_the_longest_match_comes_first_and_recency_decides_among_equals() -> None:
    index = index_of(1, 2, 3, 8, 2, 3, 9, 2, 3, 7, 1, 2, 3)
    voters = find_voters(RECENT, index, index.recent(4), limit=8, depth=2)
    assert voters == [(3, 1 / 3, [8, 2]), (2, 1.0, [7, 1]), (2, 1 / 2, [9, 2])]


def test_an_occurrence_that_overlaps_the_end_goes_on_periodically() -> None:
    index = index_of(6, 1, 2, 1, 2)
    assert find_voters(FLAT, index, index.recent(4), limit=8, depth=5) == [(2, 1.0, [1, 2, 1, 2, 1])]


def test_an_occurrence_at_the_end_of_another_text_has_nothing_to_say() -> None:
    index = index_of(4, 5, SEPARATOR)
    assert find_voters(FLAT, index, [5, 4], limit=8, depth=2)[0][2][0] == SEPARATOR


def test_no_occurrence_gives_no_voters() -> None:
    index = index_of(1, 2, 3)
    assert find_voters(FLAT, index, index.recent(3), limit=8, depth=2) == []
