from __future__ import annotations

import pytest

from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.voter_guesses import VoterGuesses
from paradraft.drafters.votes import Body, Voter

OWN = Body(source=0, caution=(1.0,), is_recency_weighted=False)
SHARED = Body(source=1, caution=(1.0,), is_recency_weighted=False)
DEEP = Budget(nodes=8, depth=4, width=1, price=Price(0.0))


def said(*follows: list[int]) -> list[Voter]:
    return [(1, 1.0, list(words)) for words in follows]


def voted(*bodies: tuple[Body, list[Voter]]) -> Draft:
    camp = [found for _, found in bodies]
    return grow(VoterGuesses([body for body, _ in bodies], camp, depth=DEEP.depth), DEEP)


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


def test_nothing_is_said_of_a_path_that_leaves_all_voters_behind() -> None:
    """Somebody else may propose a token that no occurrence of the context went on with."""
    guesses = VoterGuesses([OWN], [said([1, 2, 3], [1, 4, 5])], depth=3)
    below = guesses.descend(guesses.root(), 1)
    assert below is not None
    assert set(guesses.shares(below)) == {2, 4}
    assert guesses.descend(below, 77) is None
    assert guesses.descend(guesses.root(), 77) is None


def test_nothing_is_said_below_the_depth_that_was_looked_at() -> None:
    guesses = VoterGuesses([OWN], [said([2, 3])], depth=2)
    below = guesses.descend(guesses.root(), 2)
    assert below is not None
    assert set(guesses.shares(below)) == {3}
    assert guesses.descend(below, 3) is None
