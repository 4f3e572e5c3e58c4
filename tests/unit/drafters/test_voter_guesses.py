from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.voter_guesses import TextVoters, VoterGuesses
from paradraft.drafters.votes import Body, Voter

OWN = Body(source=0, caution=(1.0,), is_recency_weighted=False)
SHARED = Body(source=1, caution=(1.0,), is_recency_weighted=False)
DEEP = Budget(nodes=8, depth=4, width=1, price=Price(0.0))


class Fixed(TextVoters):
    """A body whose voters are given for the empty path and unknown elsewhere."""

    def __new__(cls, *_: object) -> Fixed:
        return object.__new__(cls)

    def find(self, context: list[int], depth: int) -> list[Voter]:
        return self.index if depth == DEEP.depth else []  # type: ignore[return-value]


def said(*follows: list[int]) -> list[Voter]:
    return [(1, 1.0, list(words)) for words in follows]


def voted(*bodies: tuple[Body, list[Voter]]) -> Draft:
    voters = [Fixed(body, found, 5) for body, found in bodies]  # type: ignore[arg-type]
    return grow(VoterGuesses(voters, [], depth=DEEP.depth), DEEP)


def index_of(text: list[int]) -> TokenIndex:
    index = TokenIndex(orders=(1, 2), max_tokens=100)
    index.extend(ints(text))
    return index


def test_a_chain_follows_the_majority_of_those_who_agree_so_far() -> None:
    draft = voted((OWN, said([1, 2, 3, 4], [1, 2, 5, 6], [1, 9, 5, 5], [8, 5, 5, 5])))
    assert draft.tokens == [1, 2, 3, 4]
    assert draft.confidence == pytest.approx([3 / 5, 3 / 5 * 2 / 4, 3 / 5 * 2 / 4 * 1 / 3, 3 / 5 * 2 / 4 / 3 / 2])


def test_a_text_that_ends_takes_its_votes_along() -> None:
    assert voted((OWN, said([1, SEPARATOR, 7, 7]))).tokens == [1]


def test_sources_name_every_body_that_stands_behind_a_node() -> None:
    draft = voted((OWN, said([1, 2, 3, 4])), (SHARED, said([1, 2, 7, 7], [6, 6, 6, 6])))
    assert draft.tokens == [1, 2, 3, 4]
    assert draft.sources == [0b11, 0b11, 0b01, 0b01]


def test_a_second_body_speaks_where_the_first_is_silent() -> None:
    draft = voted((OWN, []), (SHARED, said([6, 6, 6, 6])))
    assert draft.tokens == [6, 6, 6, 6]
    assert set(draft.sources) == {0b10}


def test_a_path_that_leaves_its_voters_finds_others_that_match_its_end() -> None:
    """Somebody else may propose a token that no occurrence of the context went on with."""
    text = [5, 6, 7, 1, 2, 3, 9, 1, 8, 5]
    guesses = VoterGuesses([TextVoters(OWN, index_of(text), 5)], index_of(text).recent(12), depth=4)
    assert list(guesses.shares(guesses.root())) == [6]
    off = guesses.descend(guesses.root(), 1)
    assert off is not None
    assert set(guesses.shares(off)) == {2, 8}
    assert guesses.source_of(off, 8) == 0b01
    unknown = guesses.descend(off, 77)
    assert guesses.shares(unknown) == {}
    assert set(guesses.shares(guesses.descend(unknown, 3))) == {9}


def test_nothing_is_said_below_the_depth_that_was_looked_at() -> None:
    text = [1, 2, 3, 4, 5, 1]
    guesses = VoterGuesses([TextVoters(OWN, index_of(text), 5)], index_of(text).recent(12), depth=2)
    below = guesses.descend(guesses.root(), 2)
    assert below is not None
    assert set(guesses.shares(below)) == {3}
    assert guesses.descend(below, 3) is None
