from __future__ import annotations

import pytest

from paradraft.drafters.draft import Price
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.token_ring import SEPARATOR
from paradraft.drafters.votes import Body, Voter

OWN = Body(source=0, caution=(1.0,), is_recency_weighted=False)
SHARED = Body(source=1, caution=(1.0,), is_recency_weighted=False)
DEEP = Budget(nodes=8, depth=4, width=1, price=Price(0.0))


def voters(*follows: list[int], weight: float = 1.0) -> list[Voter]:
    return [(1, weight, list(words)) for words in follows]


def test_a_chain_follows_the_majority_of_those_who_agree_so_far() -> None:
    draft = grow((OWN,), [voters([1, 2, 3, 4], [1, 2, 5, 6], [1, 9, 5, 5], [8, 5, 5, 5])], DEEP, 1.0)
    assert draft.tokens == [1, 2, 3, 4]
    assert draft.parents == [-1, 0, 1, 2]
    assert draft.confidence == pytest.approx([3 / 5, 3 / 5 * 2 / 4, 3 / 5 * 2 / 4 * 1 / 3, 3 / 5 * 2 / 4 / 3 / 2])


def test_a_text_that_ends_takes_its_votes_along() -> None:
    draft = grow((OWN,), [voters([1, SEPARATOR, 7, 7])], DEEP, 1.0)
    assert draft.tokens == [1]


def test_a_tree_takes_the_likeliest_nodes_and_keeps_parents_first() -> None:
    budget = Budget(nodes=4, depth=4, width=3, price=Price(0.0))
    draft = grow((OWN,), [voters([1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8])], budget, 1.0)
    assert draft.tokens == [1, 2, 5, 3]
    assert draft.parents == [-1, 0, -1, 1]
    assert draft.depths == [1, 2, 1, 3]
    assert sorted(draft.confidence, reverse=True) == draft.confidence


def test_width_bounds_the_children_of_a_node() -> None:
    budget = Budget(nodes=8, depth=1, width=2, price=Price(0.0))
    draft = grow((OWN,), [voters([1], [2], [3], [4], [1], [2])], budget, 1.0)
    assert draft.tokens == [1, 2]


def test_a_draft_ends_where_another_node_does_not_pay() -> None:
    """A node pays if it adds more tokens per cost than the pass gives so far."""
    budget = Budget(nodes=8, depth=8, width=1, price=Price(0.3))
    draft = grow((OWN,), [voters([1] * 8)], budget, 1.0)
    rates = [0.5**level for level in range(1, 9)]
    pays = [rate / 0.3 > (1 + sum(rates[:level])) / (1 + 0.3 * level) for level, rate in enumerate(rates)]
    assert len(draft) == pays.index(False) == 1


def test_trust_scales_every_level_and_never_makes_it_certain() -> None:
    halved = grow((OWN,), [voters([1, 2, 3, 4])], DEEP, 0.5)
    assert halved.confidence == pytest.approx([0.25**level for level in range(1, 5)])
    assert max(grow((OWN,), [voters([1], weight=1e9)], Budget(1, 1, 1, Price(0.0)), 1.5).confidence) < 1.0


def test_sources_name_every_body_that_stands_behind_a_node() -> None:
    draft = grow((OWN, SHARED), [voters([1, 2, 3, 4]), voters([1, 2, 7, 7], [6, 6, 6, 6])], DEEP, 1.0)
    assert draft.tokens == [1, 2, 3, 4]
    assert draft.sources == [0b11, 0b11, 0b01, 0b01]


def test_a_second_body_speaks_where_the_first_is_silent() -> None:
    draft = grow((OWN, SHARED), [[], voters([6, 6, 6, 6])], DEEP, 1.0)
    assert draft.tokens == [6, 6, 6, 6]
    assert set(draft.sources) == {0b10}


def test_a_draft_that_does_not_earn_the_first_nodes_price_is_not_made() -> None:
    """Each node pays for itself here, but all of them together not for drafting at all."""
    voter = [voters([1, 2, 3, 4], weight=1.0)]
    cheap = Budget(nodes=4, depth=4, width=1, price=Price(0.01))
    dear = Budget(nodes=4, depth=4, width=1, price=Price(0.01, draft=4.0))
    assert len(grow((OWN,), voter, cheap, 1.0)) == 4
    assert len(grow((OWN,), voter, dear, 1.0)) == 0
