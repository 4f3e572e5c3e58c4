"""DFlash and DSpark from training to a folder to an engine: what was learned is what is drafted, nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import AlignmentError, ConfigError
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.card import Card
from paradraft.nets.folder.facts import facts_of
from paradraft.nets.folder.saving import save_drafter_folder
from support.native import needs_native
from support.served_pair import serving, tapped_elsewhere
from support.trained_pair import ANSWER_LEN, BLOCK, PROMPT_LEN, Pair, accepted_at, trained_pair

METHODS = ["dflash", "dspark"]
GREEDY = SamplingParams(temperature=0.0, max_tokens=ANSWER_LEN, ignore_eos=True)
OPTIONS = {"dtype": "fp32", "kv_tokens": 2048, "page_size": 4, "adaptive": False, "seed": 3, "gamma": BLOCK}


@pytest.fixture(params=METHODS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return trained_pair(request.param)


@pytest.fixture
def dspark() -> Pair:
    return trained_pair("dspark")


def held_out(pair: Pair, count: int = 8) -> list[list[int]]:
    """Return prompts that were not trained on."""
    return pair.ids[-count:, :PROMPT_LEN].tolist()


def answers(model: Path, params: SamplingParams, prompts: list[list[int]], **options) -> list[tuple[int, ...]]:
    with LLM(str(model), **{**OPTIONS, **options}) as llm:
        return [result.choices[0].token_ids for result in llm.generate(prompts, params)]


def folder_of(pair: Pair, folder: Path, *, has_card: bool = True, **changes) -> Path:
    """Write the pair's drafter as a folder, its configuration changed."""
    with LLM(str(pair.folder), drafter="none", **{**OPTIONS, "gamma": 0}) as llm:
        facts = facts_of(llm.model)
    net = pair.net
    if changes:
        net = tapped_elsewhere(net, 0)
        net.config = replace(net.config, **changes)
    return save_drafter_folder(folder, net, Card(target=facts) if has_card else None)


def compare(pair: Pair, shift: int = 0, *, is_native: bool = False) -> tuple[list[int], list[int]]:
    """Return how many drafts stood in served rounds, and how many should have by the training pass."""
    served, foretold = [], []
    for text in range(len(pair.ids) - 6, len(pair.ids)):
        expected = accepted_at(pair, text)
        with serving(pair, tapped_elsewhere(pair.net, shift), is_native=is_native) as (llm, watch):
            llm.generate([pair.ids[text, :PROMPT_LEN].tolist()], GREEDY)
        rounds = [each for each in watch.rounds if expected[each.anchor] >= 0 and each.drafted == BLOCK]
        served += [each.accepted for each in rounds]
        foretold += [expected[each.anchor] for each in rounds]
    assert sum(foretold) > 5
    return served, foretold


@pytest.mark.parametrize("is_native", [False, pytest.param(True, marks=needs_native)], ids=["torch", "native"])
def test_served_rounds_accept_exactly_what_teacher_forcing_foretells(pair: Pair, is_native: bool):
    served, foretold = compare(pair, is_native=is_native)
    assert served == foretold


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_tap_shifted_by_one_layer_is_detected(dspark: Pair, shift: int):
    served, foretold = compare(dspark, shift)
    assert served != foretold
    assert sum(served) < sum(foretold)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_a_drafter_folder_changes_no_token(dspark: Pair, temperature: float, width: int, tmp_path: Path):
    params = SamplingParams(temperature=temperature, max_tokens=24)
    folder = folder_of(dspark, tmp_path / "drafter")
    plain = answers(dspark.folder, params, held_out(dspark), drafter="none")
    options = {"drafter": str(folder), "draft_width": width, "draft_nodes": 7}
    assert answers(dspark.folder, params, held_out(dspark), **options) == plain


@pytest.mark.parametrize("name", ["merged", "ladder"])
def test_a_drafter_folder_is_a_source_among_others(dspark: Pair, name: str, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter")
    params = SamplingParams(temperature=0.7, max_tokens=24)
    plain = answers(dspark.folder, params, held_out(dspark), drafter="none")
    options = {"drafter": name, "draft_sources": ("suffix", str(folder)), "draft_nodes": 6}
    with LLM(str(dspark.folder), **{**OPTIONS, **options}) as llm:
        assert "dspark" in llm.engine.drafter.needs.sources
        assert llm.engine.drafter.needs.hidden_layers == dspark.net.config.tap_layers
        results = llm.generate(held_out(dspark), params)
        assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
    assert [result.choices[0].token_ids for result in results] == plain


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive", "greedy"])
def test_a_drafter_folder_serves_every_rule(dspark: Pair, rule: str, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter")
    params = SamplingParams(temperature=0.0 if rule == "greedy" else 0.8, max_tokens=24)
    with LLM(str(dspark.folder), drafter=str(folder), rule=rule, **OPTIONS) as llm:
        results = llm.generate(held_out(dspark), params)
        assert "dspark" in llm.summary()
        assert llm.engine.drafter.needs.hidden_layers == dspark.net.config.tap_layers
    assert sum(result.choices[0].stats.drafted for result in results) > 0


def test_a_folder_drafts_as_the_network_it_was_written_from(dspark: Pair, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter")
    prompts = held_out(dspark)
    with serving(dspark, node_cost=None) as (llm, _):
        wanted = [result.choices[0].stats.accepted for result in llm.generate(prompts, GREEDY)]
    with LLM(str(dspark.folder), drafter=str(folder), **OPTIONS) as llm:
        found = [result.choices[0].stats.accepted for result in llm.generate(prompts, GREEDY)]
    assert found == wanted
    assert sum(found) > 0


def test_a_drafter_of_another_target_is_refused(dspark: Pair, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter")
    wider = write_tiny_model(tmp_path / "wider", "llama", 3, {"hidden_size": 96, "head_dim": 16})
    with pytest.raises(AlignmentError, match="hidden states"):
        LLM(str(wider), drafter=str(folder), **OPTIONS)


def test_taps_that_the_target_does_not_have_are_refused_before_it_is_loaded(dspark: Pair, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter", tap_layers=(0, 7), num_target_layers=8, has_card=False)
    with pytest.raises(AlignmentError, match="layer"):
        LLM(str(dspark.folder), drafter=str(folder), **OPTIONS)


def test_what_a_drafter_cannot_prove_is_said_at_the_start(dspark: Pair, tmp_path: Path):
    with LLM(str(dspark.folder), drafter=str(folder_of(dspark, tmp_path / "carded")), **OPTIONS) as llm:
        assert "no card" not in llm.summary()
    bare = folder_of(dspark, tmp_path / "bare", has_card=False)
    with LLM(str(dspark.folder), drafter=str(bare), **OPTIONS) as llm:
        assert "no card" in llm.summary()


def test_a_tree_under_a_rule_for_chains_is_refused(dspark: Pair, tmp_path: Path):
    folder = folder_of(dspark, tmp_path / "drafter")
    with pytest.raises(ConfigError, match="draft_width"):
        LLM(str(dspark.folder), drafter=str(folder), rule="rejection", draft_width=2, **OPTIONS)
