"""The drafter over a network that is fed its own drafts."""

from __future__ import annotations

import numpy as np

from paradraft.core.events import TokenEvent
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.neural.drafter import NeuralDrafter
from support.drafting import RowText, batch_for, plan_for
from support.engines import LAW, build_engine, request, run
from support.stepped_network import SteppedStubNetwork
from support.stub_network import build_neural_drafter

PROMPTS = [[5, 9, 3, 7], [1, 2, 3, 4, 5, 6, 7, 8, 9], [8, 8]]
TEXTS = [RowText(tokens=prompt, row=row) for row, prompt in enumerate(PROMPTS)]


def stepped(block_size: int = 6, **options: object) -> tuple[NeuralDrafter, SteppedStubNetwork]:
    network = SteppedStubNetwork(LAW, block_size=block_size)
    return build_neural_drafter(network, **options), network


def last_events(drafter: NeuralDrafter, params: SamplingParams, **options: object) -> list[TokenEvent]:
    engine = build_engine(drafter, **options)
    events = run(engine, *[request(str(place), prompt, params) for place, prompt in enumerate(PROMPTS)])
    return [events[str(place), 0][-1] for place in range(len(PROMPTS))]


def test_a_network_that_knows_the_target_is_always_right_along_its_chain() -> None:
    drafter, _ = stepped()
    for last in last_events(drafter, SamplingParams(temperature=0.0, max_tokens=31), gamma=5, nodes=5):
        assert last.stats is not None
        assert last.stats.tau == 6.0


def test_at_a_temperature_its_chain_follows_what_the_target_will_choose() -> None:
    params = SamplingParams(temperature=0.8, max_tokens=61)
    rates = []
    for is_coupled in (True, False):
        drafter, _ = stepped(is_coupled=is_coupled)
        stats = [last.stats for last in last_events(drafter, params, gamma=5, nodes=5)]
        rates.append(sum(each.accepted for each in stats if each) / sum(each.drafted for each in stats if each))
    assert rates[0] > 0.75  # the target also chooses tokens that are not among the candidates
    assert rates[1] < 0.5


def test_rows_are_fed_together_level_by_level() -> None:
    drafter, network = stepped()
    last_events(drafter, SamplingParams(temperature=0.0, max_tokens=6), gamma=4, nodes=4)
    assert network.levels[:3] == [3, 3, 3]


def test_a_chain_is_no_deeper_than_the_network_was_made_for() -> None:
    for options, depth in (({}, 3), ({"is_sampled": True}, 3)):
        drafter, network = stepped(block_size=3, **options)
        for last in last_events(drafter, SamplingParams(temperature=0.8, max_tokens=12), gamma=7, nodes=7):
            assert last.stats is not None
            assert last.stats.drafted <= depth * last.stats.passes
        assert network.num_strange == 0


def test_a_tree_feeds_as_many_nodes_a_level_as_it_is_wide() -> None:
    drafter, network = stepped(width=3)
    last_events(drafter, SamplingParams(temperature=0.0, max_tokens=6), gamma=4, nodes=12)
    assert max(network.levels) == 3 * len(PROMPTS)


def test_drafting_rows_that_need_no_second_level_cost_no_second_pass() -> None:
    drafter, network = stepped()
    last_events(drafter, SamplingParams(temperature=0.0, max_tokens=12), gamma=1, nodes=1)
    assert network.levels == []


def test_the_price_of_a_node_keeps_hopeless_branches_from_being_fed() -> None:
    fed = []
    for cost in (0.0, 0.5):
        drafter, network = stepped(width=3, node_cost=cost)
        last_events(drafter, SamplingParams(temperature=0.0, max_tokens=12), gamma=5, nodes=20)
        fed.append(sum(network.levels))
    assert fed[1] < fed[0] / 2


def test_drawn_chains_carry_the_laws_of_their_own_paths() -> None:
    drafter, network = stepped(is_sampled=True)
    params = SamplingParams(temperature=0.8)
    batch = batch_for(*[RowText(tokens=text.tokens, row=text.row, params=params) for text in TEXTS])
    proposal = drafter.propose(batch, plan_for(batch, 4))
    assert proposal.laws is not None
    assert network.levels == [3, 3, 3]
    for row in range(len(PROMPTS)):
        text = network.reads[row]
        for node in range(int(proposal.starts[row]), int(proposal.starts[row + 1])):
            law = int(proposal.laws.of[node])
            part = slice(int(proposal.laws.starts[law]), int(proposal.laws.starts[law + 1]))
            weights = np.exp(LAW(text).astype(np.float64) / 0.8)[proposal.laws.ids[part]]
            np.testing.assert_allclose(proposal.laws.probabilities[part], weights / weights.sum(), rtol=1e-4)
            text = (*text, int(proposal.tokens[node]))


def test_guesses_for_others_are_never_drawn() -> None:
    drafter, _ = stepped(is_sampled=True)
    batch = batch_for(RowText(tokens=PROMPTS[0], params=SamplingParams(temperature=0.8)))
    [guesses] = drafter.guesses(batch, plan_for(batch, 4))
    assert guesses is not None
    shares = guesses.shares(guesses.root())
    assert 0.0 < sum(shares.values()) <= 1.0 + 1e-6
    assert guesses.descend(guesses.root(), max(shares, key=shares.__getitem__)) is not None
