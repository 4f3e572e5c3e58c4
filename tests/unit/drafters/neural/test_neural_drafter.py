"""The drafter over a network in an engine: whatever the target does with a row, the network reads the row's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.neural.drafter import NeuralDrafter
from paradraft.drafters.neural.options import NeuralOptions
from paradraft.engine.engine import Engine
from support.drafting import RowText, batch_for, plan_for
from support.engines import LAW, VOCAB, build_engine, ids_of, request, run
from support.stub_network import StubNetwork, build_neural_drafter

LONG = [(7 * at) % 61 for at in range(40)]
PROMPTS = [[5, 9, 3, 7], [1, 2, 3, 4, 5, 6, 7, 8, 9], [8, 8], LONG]
GREEDY = SamplingParams(temperature=0.0, max_tokens=31)
both_kinds = pytest.mark.parametrize("shift", [0, 1], ids=["unshifted", "shifted"])


def network_drafter(shift: int = 0, **options) -> tuple[NeuralDrafter, StubNetwork]:
    """Return a drafter whose network has the target's own law, so that it is right wherever its context is."""
    network = StubNetwork(LAW, shift=shift)
    return build_neural_drafter(network, **options), network


def answers(engine: Engine, prompts=PROMPTS, params=GREEDY) -> dict[int, list[int]]:
    events = run(engine, *[request(str(place), prompt, params) for place, prompt in enumerate(prompts)])
    return {place: ids_of(events[str(place), 0]) for place in range(len(prompts))}


def plain(prompts=PROMPTS, params=GREEDY) -> dict[int, list[int]]:
    return answers(build_engine(), prompts, params)


def require_whole_texts(network: StubNetwork, found: dict[int, list[int]], prompts=PROMPTS) -> None:
    """Every round must have read a beginning of one of the texts, none of it missing, at its own positions."""
    texts = [[*prompt, *found[place]] for place, prompt in enumerate(prompts)]
    assert network.reads
    for read, positions in zip(network.reads, network.positions, strict=True):
        assert any(text[: len(read)] == list(read) for text in texts)
        assert positions == list(range(len(read) - network.shift))


@both_kinds
def test_with_the_targets_own_law_every_draft_stands(shift: int):
    drafter, network = network_drafter(shift)
    engine = build_engine(drafter, gamma=5, nodes=5)
    events = run(engine, *[request(str(place), prompt, GREEDY) for place, prompt in enumerate(PROMPTS)])
    for place in range(len(PROMPTS)):
        stats = events[str(place), 0][-1].stats
        assert stats is not None
        assert stats.tau == 6.0
    require_whole_texts(network, plain())
    assert network.num_strange == 0
    assert drafter.num_missing == 0


@both_kinds
@pytest.mark.parametrize("chunk", [3, 8, 17])
def test_a_prompt_in_chunks_is_read_as_a_whole(shift: int, chunk: int):
    drafter, network = network_drafter(shift)
    found = answers(build_engine(drafter, max_step_tokens=chunk))
    assert found == plain()
    require_whole_texts(network, found)


@both_kinds
def test_a_second_request_with_the_same_beginning_feeds_its_end_only(shift: int):
    drafter, network = network_drafter(shift)
    engine = build_engine(drafter)
    prompts = [LONG, [*LONG[:33], 60, 59, 58]]
    first = answers(engine, prompts[:1])
    fed = network.num_fed
    network.reads.clear()
    network.positions.clear()
    second = answers(engine, prompts[1:])
    assert second == plain(prompts[1:])
    require_whole_texts(network, second, prompts[1:])
    assert network.num_fed - fed < len(prompts[1]) + len(second[0]) - 24
    assert len(first[0]) == GREEDY.max_tokens
    assert drafter.num_missing == 0


@both_kinds
def test_where_the_target_kept_more_than_the_drafter_it_goes_on_with_what_it_has(shift: int):
    drafter, network = network_drafter(shift)
    engine = build_engine(drafter)
    answers(engine, [LONG])
    drafter._pages.drop_cached()
    network.reads.clear()
    ending = [*LONG[:34], 50, 51]
    assert answers(engine, [ending]) == plain([ending])
    assert network.reads
    assert all(len(read) < len(ending) + GREEDY.max_tokens for read in network.reads)
    assert 24 <= drafter.num_missing <= 34


@both_kinds
def test_preempted_rows_come_back_and_draft(shift: int):
    drafter, network = network_drafter(shift)
    engine = build_engine(drafter, num_pages=26, max_rows=4)
    prompts = [LONG[start : start + 9] for start in range(0, 28, 4)]
    events = run(engine, *[request(str(place), prompt, GREEDY) for place, prompt in enumerate(prompts)])
    lasts = [events[str(place), 0][-1].stats for place in range(len(prompts))]
    assert sum(stats.preemptions for stats in lasts if stats) > 0
    assert {place: ids_of(events[str(place), 0]) for place in range(len(prompts))} == plain(prompts)
    assert network.num_strange == 0
    drafter._pages.check()


def test_a_network_with_few_pages_drafts_for_the_rows_it_has_room_for():
    drafter, network = network_drafter(num_pages=22)
    assert answers(build_engine(drafter)) == plain()
    assert drafter.num_passed > 0
    assert network.reads
    drafter._pages.check()


def test_pages_of_ended_rows_are_given_back():
    drafter, _ = network_drafter()
    answers(build_engine(drafter))
    assert drafter._pages.counts().held == 0
    drafter._pages.check()


@both_kinds
def test_a_network_that_breaks_and_recovers_costs_drafts_only(shift: int):
    drafter, network = network_drafter(shift)
    engine = build_engine(GuardedDrafter(drafter, vocab_size=VOCAB, pause_seconds=0.0))
    for place, prompt in enumerate(PROMPTS):
        engine.add(request(str(place), prompt, GREEDY))
    events: dict[int, list[int]] = {place: [] for place in range(len(PROMPTS))}
    for step in range(100):
        network.is_broken = step in (0, 3, 4)
        for event in engine.step():
            events[int(event.request_id)] += event.token_ids
    assert events == plain()
    assert drafter.num_missing > 0
    drafter._pages.check()
    assert drafter._pages.counts().held == 0


def test_rows_beyond_the_networks_positions_get_no_drafts():
    drafter, network = network_drafter()
    network.max_positions = 30
    assert answers(build_engine(drafter)) == plain()
    assert max(len(read) for read in network.reads) - 1 + network.block_size + 1 <= 30
    assert drafter.num_passed > 0


def test_other_tenants_contexts_are_never_taken_over():
    drafter, network = network_drafter()
    engine = build_engine(drafter)
    for tenant in ("a", "b"):
        fed = network.num_fed
        run(engine, replace(request(tenant, LONG), tenant=tenant))
        assert network.num_fed - fed >= len(LONG)


@both_kinds
def test_several_choices_of_one_prompt_share_it(shift: int):
    drafter, network = network_drafter(shift)
    params = SamplingParams(temperature=0.9, max_tokens=12, n=3)
    found = run(build_engine(drafter), request("several", LONG, params))
    wanted = run(build_engine(), request("several", LONG, params))
    assert {key: ids_of(events) for key, events in found.items()} == {
        key: ids_of(events) for key, events in wanted.items()
    }
    assert drafter.num_missing == 0
    assert network.num_strange == 0


def test_drafting_sees_rows_at_their_own_temperature():
    drafter, _ = network_drafter()
    params = SamplingParams(temperature=2.0)
    batch = batch_for(RowText(tokens=[4, 9], params=params), RowText(tokens=[4, 9], row=1))
    warm, cold = drafter.guesses(batch, plan_for(batch, 3))
    assert warm is not None
    assert cold is not None
    # No taps yet: the context is empty, the anchor is all that was read.
    for guesses, heat in ((warm, 2.0), (cold, 1.0)):
        logits = LAW((9,)) / heat
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        for token, share in guesses.shares(guesses.root()).items():
            assert share == pytest.approx(chances[token], rel=1e-4)


def test_a_network_drafter_is_a_source_of_guesses():
    drafter, _ = network_drafter()
    assert isinstance(drafter, GuessingDrafter)
    assert drafter.needs.hidden_layers == (0,)
    assert drafter.needs.sources == ("stub",)


@pytest.mark.parametrize("wrong", [{"width": 0}, {"width": 2, "is_sampled": True}], ids=str)
def test_options_that_cannot_work_are_refused(wrong: dict):
    with pytest.raises(ConfigError, match="width"):
        NeuralOptions(**wrong)
