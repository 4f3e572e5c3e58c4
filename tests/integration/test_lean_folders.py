"""A folder that leaves its head's rows to the target drafts as the one that holds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paradraft import LLM, SamplingParams
from paradraft.models.tables import tables_of
from paradraft.models.tensors import tensor_of
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import card, drafter

SIZES = {"hidden_size": 48, "vocab_size": 259, "draft_vocab_size": 128, "num_target_layers": 3, "tap_layers": (0, 1)}
OPTIONS = {"draft_price": 0.0, "gamma": 4, "adaptive": False, "schedule_verification": False, "kv_tokens": 1024}
PROMPTS = [[5, 9, 60, 8], [70, 71, 72, 70]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target") / "target", "llama", 3)


@pytest.mark.parametrize("method", ["dspark", "peagle"])
def test_lean_and_whole_folders_draft_the_same(method: str, target: Path, tmp_path: Path):
    checkpoint, facts = open_target(str(target))
    tables, net = tables_of(checkpoint), drafter(method, **SIZES)
    net.tensors["lm_head.weight"] = tensor_of(
        tables.head.rows((net.tensors["d2t"] + torch.arange(128)).numpy())
    ).float()
    drafted = []
    for is_whole in (False, True):
        folder = tmp_path / str(is_whole)
        save_drafter_folder(folder, net, card(target=facts), dtype="fp16", tables=tables, is_whole=is_whole)
        assert bool(load_drafter_folder(folder).from_target) is not is_whole
        with LLM(str(target), drafter=str(folder), dtype="fp32", **OPTIONS) as llm:
            results = llm.generate(PROMPTS, SamplingParams(temperature=0.0, max_tokens=24))
            assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
        drafted.append([(choice.stats.drafted, choice.stats.accepted) for each in results for choice in each.choices])
    assert drafted[0] == drafted[1]
    assert sum(count for count, _ in drafted[0]) > 20


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_named_network_joins_the_default_tree_and_changes_no_token(temperature: float, target: Path, tmp_path: Path):
    net = drafter("dspark", **SIZES)
    folder = save_drafter_folder(tmp_path / "net", net, card(target=open_target(str(target))[1]))
    params = SamplingParams(temperature=temperature, max_tokens=24, seed=5)
    answers = {}
    for network in (str(folder), "none"):
        with LLM(str(target), draft_network=network, dtype="fp32", **OPTIONS) as llm:
            results = llm.generate(PROMPTS, params)
            assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
            assert ("dspark" in llm.engine.drafter.needs.sources) is (network != "none")
        answers[network] = [result.choices[0].token_ids for result in results]
    assert answers[str(folder)] == answers["none"]


def test_a_lean_folder_says_when_its_rows_come_from_other_weights(target: Path, tmp_path: Path):
    checkpoint, facts = open_target(str(target))
    tables, net = tables_of(checkpoint), drafter("dspark", **SIZES)
    net.tensors["lm_head.weight"] = tensor_of(
        tables.head.rows((net.tensors["d2t"] + torch.arange(128)).numpy())
    ).float()
    other = replace(facts, sha256="e" * 64, name="tuned")
    folder = save_drafter_folder(tmp_path / "lean", net, card(target=other), tables=tables)
    with LLM(str(target), drafter=str(folder), **OPTIONS) as llm:
        assert "not the files this drafter was trained on (tuned)" in llm.summary()
