from __future__ import annotations

import pytest

from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.growth import HOPE, Budget, grow
from paradraft.drafters.guesses import Guesses, State

DEEP = Budget(nodes=8, depth=4, width=1, price=Price(0.0))


class Laws(Guesses):
    """Guesses written out: the shares after each path."""

    def __init__(self, laws: dict[tuple[int, ...], dict[int, float]]) -> None:
        self.laws = laws

    def root(self) -> State:
        return ()

    def shares(self, state: State) -> dict[int, float]:
        return self.laws.get(state, {})

    def descend(self, state: State, token: int) -> State | None:
        return (*state, token)

    def source_of(self, state: State, token: int) -> int:
        return 1 << len(state)


def always(shares: dict[int, float]) -> Laws:
    guesses = Laws({})
    guesses.shares = lambda _: shares
    return guesses


def coupling(seed: int) -> Coupling:
    params = SamplingParams(temperature=1.0)
    return Coupling(RowSampling(params=params, seed=seed, choice=0, prompt_len=3, stop_ids=()), 5)


def test_a_chain_follows_the_likeliest_token_of_each_level() -> None:
    laws = Laws({(): {1: 0.6, 8: 0.2}, (1,): {9: 0.3, 2: 0.5}, (1, 2): {3: 0.4}})
    draft = grow(laws, DEEP)
    assert draft.tokens == [1, 2, 3]
    assert draft.parents == [-1, 0, 1]
    assert draft.sources == [1, 2, 4]
    assert draft.confidence == pytest.approx([0.6, 0.3, 0.12])


def test_a_tree_takes_the_likeliest_nodes_and_keeps_parents_first() -> None:
    budget = Budget(nodes=4, depth=4, width=3, price=Price(0.0))
    laws = Laws({(): {1: 0.5, 5: 0.3}, (1,): {2: 0.8}, (1, 2): {3: 0.6}, (5,): {6: 0.5}})
    draft = grow(laws, budget)
    assert draft.tokens == [1, 2, 5, 3]
    assert draft.parents == [-1, 0, -1, 1]
    assert draft.depths == [1, 2, 1, 3]
    assert sorted(draft.confidence, reverse=True) == draft.confidence


def test_width_bounds_the_children_of_a_node() -> None:
    budget = Budget(nodes=8, depth=1, width=2, price=Price(0.0))
    assert grow(always({1: 0.3, 2: 0.3, 3: 0.1, 4: 0.1}), budget).tokens == [1, 2]


def test_a_draft_ends_where_another_node_does_not_pay() -> None:
    """A node pays if it adds more tokens per cost than the pass gives so far."""
    budget = Budget(nodes=8, depth=8, width=1, price=Price(0.3))
    draft = grow(always({1: 0.5}), budget)
    rates = [0.5**level for level in range(1, 9)]
    pays = [rate / 0.3 > (1 + sum(rates[:level])) / (1 + 0.3 * level) for level, rate in enumerate(rates)]
    assert len(draft) == pays.index(False) == 1


def test_trust_scales_every_level_and_never_makes_it_certain() -> None:
    halved = grow(always({1: 0.5}), DEEP, trust=0.5)
    assert halved.confidence == pytest.approx([0.25**level for level in range(1, 5)])
    assert max(grow(always({1: 1.0}), Budget(1, 1, 1, Price(0.0)), trust=1.5).confidence) < 1.0


def test_no_nodes_and_no_guesses_give_no_draft() -> None:
    assert not len(grow(always({1: 0.9}), Budget(0, 4, 1, Price(0.0))))
    assert not len(grow(always({1: 0.9}), Budget(4, 0, 1, Price(0.0))))
    assert not len(grow(always({}), DEEP))


def test_a_draft_that_does_not_earn_the_first_nodes_price_is_not_made() -> None:
    """Each node pays for itself here, but all of them together not for drafting at all."""
    cheap = Budget(nodes=4, depth=4, width=1, price=Price(0.01))
    dear = Budget(nodes=4, depth=4, width=1, price=Price(0.01, draft=4.0))
    assert len(grow(always({1: 0.5}), cheap)) == 4
    assert len(grow(always({1: 0.5}), dear)) == 0


def asked_for(laws: Laws, budget: Budget) -> tuple[Draft, list[State]]:
    asked: list[State] = []
    shares = laws.shares
    laws.shares = lambda state: asked.append(state) or shares(state)  # type: ignore[func-returns-value, method-assign]
    return grow(laws, budget), asked


def test_places_below_nodes_that_others_outdo_are_not_asked() -> None:
    """What waits beside them is worth more than what is hoped for below them."""
    shares = {1: 0.3, 2: 0.25, 3: 0.2, 4: 0.19}
    draft, asked = asked_for(Laws({(): shares}), Budget(nodes=4, depth=8, width=4, price=Price(0.0)))
    assert draft.tokens == [1, 2, 3, 4]
    assert asked == [()]
    draft, asked = asked_for(Laws({(): {1: 0.9, 2: 0.1}, (1,): {5: 0.9}}), Budget(3, 8, 2, Price(0.0)))
    assert draft.tokens == [1, 5, 2]
    assert asked == [(), (1,), (1, 5)]


def test_a_place_is_asked_if_its_best_child_is_hoped_to_be_worth_more_than_what_waits() -> None:
    hopeful, hopeless = 0.3 / HOPE + 0.01, 0.3 / HOPE - 0.01
    budget = Budget(nodes=2, depth=8, width=2, price=Price(0.0))
    assert grow(Laws({(): {1: hopeful, 2: 0.3}, (1,): {5: 0.9}}), budget).tokens == [1, 5]
    assert grow(Laws({(): {1: hopeless, 2: 0.3}, (1,): {5: 0.9}}), budget).tokens == [1, 2]


def test_places_below_which_no_node_is_hoped_to_pay_are_not_asked() -> None:
    laws = Laws({(): {1: 0.5}, (1,): {5: 0.5}})
    draft, asked = asked_for(laws, Budget(nodes=8, depth=8, width=1, price=Price(0.3)))
    assert (draft.tokens, asked) == ([1], [()])


def test_chains_are_asked_to_their_end_however_little_is_hoped_for() -> None:
    draft, asked = asked_for(always({1: 0.01}), Budget(nodes=4, depth=4, width=1, price=Price(0.0)))
    assert len(draft) == len(asked) == 4


def test_noise_picks_the_likeliest_winner_and_differs_from_level_to_level() -> None:
    chains = {tuple(grow(always({1: 0.4, 2: 0.35}), DEEP, coupling(seed)).tokens) for seed in range(40)}
    assert len(chains) > 10
    assert any(len(set(chain)) == 2 for chain in chains)


def test_bent_shares_foretell_the_race_better_than_plain_ones() -> None:
    """The target's law is 0.5, 0.3, 0.2: its winner is named more often with the noise than without."""
    law, hits = {7: 0.5, 8: 0.3}, 0
    for seed in range(300):
        noise = coupling(seed)
        keys = dict(zip((7, 8, 9), noise.gumbel([7, 8, 9], 0), strict=True))
        winner = max((7, 8, 9), key=lambda token: {7: 0.5, 8: 0.3, 9: 0.2}[token] * 2.718281828 ** keys[token])
        bent = noise.bend(law, 0)
        assert sum(bent.values()) <= 1.0 + 1e-12
        hits += max(bent, key=bent.__getitem__) == winner
    assert hits > 300 * 0.7
