"""EAGLE-3, P-EAGLE and Medusa from training to serving: what was learned is what is drafted, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor

from paradraft import LLM, SamplingParams
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.card import Card
from paradraft.nets.folder.facts import facts_of
from paradraft.nets.folder.saving import save_drafter_folder
from support.native import needs_native
from support.served_pair import Watch, serving, tapped_elsewhere
from support.trained_pair import ANSWER_LEN, BLOCK, CALM, PROMPT_LEN, Pair, accepted_at, trained_pair

METHODS = ["eagle3", "peagle", "medusa"]
READING = ["eagle3", "peagle"]  # those with a cache, which run on the native core too
GREEDY = SamplingParams(temperature=0.0, max_tokens=ANSWER_LEN, ignore_eos=True)


@dataclass(frozen=True)
class Bare:
    """Weights as `save_drafter_folder` takes them."""

    config: NetConfig
    tensors: dict[str, Tensor]

    def state_dict(self) -> dict[str, Tensor]:
        return self.tensors


@pytest.fixture(params=METHODS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return trained_pair(request.param, calm=CALM)


def held_out(pair: Pair, count: int = 4) -> list[list[int]]:
    """Return prompts that were not trained on."""
    return pair.ids[-count:, :PROMPT_LEN].tolist()


def answers(llm: LLM, prompts: list[list[int]], params: SamplingParams) -> list[tuple[int, ...]]:
    return [result.choices[0].token_ids for result in llm.generate(prompts, params)]


def plain_answers(pair: Pair, prompts: list[list[int]], params: SamplingParams) -> list[tuple[int, ...]]:
    with LLM(str(pair.folder), drafter="none", dtype="fp32", kv_tokens=2048, seed=3) as llm:
        return answers(llm, prompts, params)


def share_accepted(watch: Watch) -> float:
    return sum(each.accepted for each in watch.rounds) / sum(each.drafted for each in watch.rounds)


def outcomes(watch: Watch) -> dict[int, int]:
    """Return how many drafts stood behind each anchor that was drafted for in full."""
    return {each.anchor: each.accepted for each in watch.rounds if each.drafted == BLOCK}


def test_served_rounds_accept_exactly_what_teacher_forcing_foretells(pair: Pair) -> None:
    require_foretold(pair)


@needs_native
@pytest.mark.parametrize("method", READING)
def test_rounds_on_the_native_core_accept_what_teacher_forcing_foretells(method: str) -> None:
    require_foretold(trained_pair(method, calm=CALM), is_native=True)


def require_foretold(pair: Pair, *, is_native: bool = False) -> None:
    texts = range(len(pair.ids) - 4, len(pair.ids))
    for text in texts:
        foretold = accepted_at(pair, text)
        with serving(pair, is_native=is_native) as (llm, watch):
            [answer] = answers(llm, [pair.ids[text, :PROMPT_LEN].tolist()], GREEDY)
        assert list(answer) == pair.ids[text, PROMPT_LEN:].tolist()
        compared = [each for each in watch.rounds if foretold[each.anchor] >= 0 and each.drafted == BLOCK]
        assert len(compared) > 5
        assert sum(each.accepted for each in compared) > 0
        assert [each.accepted for each in compared] == [foretold[each.anchor] for each in compared]


def test_a_tap_one_layer_off_shows_in_rounds_that_come_to_something_else_than_foretold(pair: Pair) -> None:
    texts = range(3)
    prompts = [pair.ids[text, :PROMPT_LEN].tolist() for text in texts]
    misses = []
    for shift in (0, -1):
        misses.append(0)
        for text in texts:
            foretold = accepted_at(pair, text)
            with serving(pair, tapped_elsewhere(pair.net, shift)) as (llm, watch):
                answers(llm, [prompts[text]], GREEDY)
            misses[-1] += sum(foretold[at] not in (-1, count) for at, count in outcomes(watch).items())
    assert misses[0] == 0
    assert misses[1] > 0


@pytest.mark.parametrize(("temperature", "width"), [(0.0, 3), (0.7, 1), (1.0, 3)])
def test_drafts_change_no_token(pair: Pair, temperature: float, width: int) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=24)
    plain = plain_answers(pair, held_out(pair), params)
    with serving(pair, width=width) as (llm, watch):
        assert answers(llm, held_out(pair), params) == plain
    assert sum(each.accepted for each in watch.rounds) > 0


def test_a_tree_of_more_nodes_accepts_more_per_round(pair: Pair) -> None:
    chains, trees = (gained(pair, width, nodes) for width, nodes in ((1, BLOCK), (3, 3 * BLOCK)))
    assert trees > chains


@needs_native
@pytest.mark.parametrize("method", READING)
def test_trees_on_the_native_core_accept_what_they_accept_on_torch(method: str) -> None:
    pair = trained_pair(method, calm=CALM)
    assert gained(pair, 3, 3 * BLOCK, is_native=True) == gained(pair, 3, 3 * BLOCK)


def gained(pair: Pair, width: int, nodes: int, *, is_native: bool = False) -> float:
    """Return the drafts accepted per round."""
    with serving(pair, width=width, gamma=nodes, is_native=is_native) as (llm, watch):
        answers(llm, held_out(pair), GREEDY)
    assert max(each.drafted for each in watch.rounds) == nodes
    return sum(each.accepted for each in watch.rounds) / len(watch.rounds)


def test_prompts_in_chunks_and_known_beginnings_give_the_same_drafts(pair: Pair) -> None:
    prompt = pair.ids[-1, : PROMPT_LEN + 20].tolist()
    with serving(pair) as (llm, whole):
        answers(llm, [prompt], GREEDY)
        cold = outcomes(whole)
        whole.rounds.clear()
        answers(llm, [prompt], GREEDY)
        assert whole.inner.num_missing == 0
    assert outcomes(whole) == cold
    with serving(pair, max_step_tokens=BLOCK + 3) as (llm, chunked):
        answers(llm, [prompt], GREEDY)
        assert chunked.inner.num_missing == 0
    found = outcomes(chunked)
    common = cold.keys() & found.keys()
    assert len(common) > 5
    assert {anchor: found[anchor] for anchor in common} == {anchor: cold[anchor] for anchor in common}


def test_rows_in_one_batch_draft_as_alone(pair: Pair) -> None:
    prompts = held_out(pair, 3)
    with serving(pair) as (llm, together):
        answers(llm, prompts, GREEDY)
    alone = []
    for prompt in prompts:
        with serving(pair) as (llm, watch):
            answers(llm, [prompt], GREEDY)
        alone += [(each.anchor, each.accepted) for each in watch.rounds]
    assert sorted((each.anchor, each.accepted) for each in together.rounds) == sorted(alone)


@pytest.mark.parametrize("method", READING)
def test_preempted_rows_come_back_and_draft_on(method: str) -> None:
    pair = trained_pair(method, calm=CALM)
    prompts = held_out(pair, 6)
    plain = plain_answers(pair, prompts, GREEDY)
    with serving(pair, kv_tokens=128) as (llm, watch):
        results = llm.generate(prompts, GREEDY)
        assert [result.choices[0].token_ids for result in results] == plain
        assert sum(result.choices[0].stats.preemptions for result in results) > 0
        assert share_accepted(watch) > 0.05


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_sampling_rules_draw_from_the_network_and_greedy_rows_stay_plain(pair: Pair, rule: str) -> None:
    plain = plain_answers(pair, held_out(pair), GREEDY)
    with serving(pair, is_sampled=True, rule=rule) as (llm, watch):
        assert answers(llm, held_out(pair), GREEDY) == plain
        before = len(watch.rounds)
        answers(llm, held_out(pair), SamplingParams(temperature=1.0, max_tokens=24))
        assert sum(each.accepted for each in watch.rounds[before:]) > 0


def test_a_folder_drafts_as_the_network_it_was_written_from(pair: Pair, tmp_path: Path) -> None:
    with LLM(str(pair.folder), drafter="none", dtype="fp32", kv_tokens=2048, seed=3) as llm:
        card = Card(target=facts_of(llm.model))
    folder = save_drafter_folder(tmp_path / "drafter", pair.net, card)
    with serving(pair, node_cost=None) as (llm, _):
        wanted = [result.choices[0].stats.accepted for result in llm.generate(held_out(pair), GREEDY)]
    options = {"dtype": "fp32", "kv_tokens": 2048, "page_size": 4, "adaptive": False, "seed": 3, "gamma": BLOCK}
    with LLM(str(pair.folder), drafter=str(folder), **options) as llm:
        found = [result.choices[0].stats.accepted for result in llm.generate(held_out(pair), GREEDY)]
    assert found == wanted
    assert sum(found) > 0


def test_medusa_heads_without_a_norm_use_the_targets(tmp_path: Path) -> None:
    pair = trained_pair("medusa", calm=CALM)
    rest = {name: tensor for name, tensor in pair.net.state_dict().items() if name != "norm.weight"}
    folder = save_drafter_folder(tmp_path / "drafter", Bare(pair.net.config, rest), None)
    whole = save_drafter_folder(tmp_path / "whole", pair.net, None)
    found = []
    for drafter in (folder, whole):
        with LLM(str(pair.folder), drafter=str(drafter), dtype="fp32", kv_tokens=2048, adaptive=False) as llm:
            found.append([result.choices[0].stats.accepted for result in llm.generate(held_out(pair), GREEDY)])
    assert found[0] == found[1]
    assert sum(found[0]) > 0
