"""A drafting network on the native core changes no token, whatever it and its target are rounded to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError
from paradraft.models.native_weights import Packer
from paradraft.models.tables import tables_of
from paradraft.models.tensors import tensor_of
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import card, drafter
from support.native import needs_native

SIZES = {"hidden_size": 48, "vocab_size": 259, "draft_vocab_size": 128, "num_target_layers": 3, "tap_layers": (0, 1)}
OPTIONS = {"draft_price": 0.0, "gamma": 4, "adaptive": False, "schedule_verification": False, "kv_tokens": 1024}
PROMPTS = [[5, 9, 60, 8], [70, 71, 72, 70], list(range(40, 80))]
pytestmark = needs_native


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target") / "target", "llama", 3)


@pytest.fixture(scope="module", params=["dspark", "dflash", "eagle3", "peagle"])
def folder(request: pytest.FixtureRequest, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / request.param
    return save_drafter_folder(path, drafter(request.param, **SIZES), card(target=open_target(str(target))[1]))


def answers(target: Path, temperature: float, **options: object) -> tuple[list[tuple[object, object]], int]:
    """Return tokens and log-probabilities of the answers, and how many drafts were made."""
    params = SamplingParams(temperature=temperature, max_tokens=24, seed=5, ignore_eos=True, logprobs=2)
    with LLM(str(target), **{**OPTIONS, "threads": 1, **options}) as llm:
        results = llm.generate(PROMPTS, params)
        failures = getattr(llm.engine.drafter, "failures", 0)
        assert not failures, llm.engine.drafter.last_reason
        choices = [result.choices[0] for result in results]
    return [(choice.token_ids, choice.logprobs) for choice in choices], sum(each.stats.drafted for each in choices)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_answers_are_those_of_plain_decoding(folder: Path, target: Path, dtype: str, temperature: float):
    plain, _ = answers(target, temperature, drafter="none", dtype=dtype)
    found, drafted = answers(target, temperature, drafter=str(folder), dtype=dtype)
    assert found == plain
    assert drafted > 50


@pytest.mark.parametrize("num_key_heads", [9, 3])
def test_a_network_may_have_other_heads_than_its_target(num_key_heads: int, target: Path, tmp_path: Path):
    net = drafter("dspark", **SIZES, num_heads=9, num_key_heads=num_key_heads)
    folder = save_drafter_folder(tmp_path / "net", net, card(target=open_target(str(target))[1]))
    plain, _ = answers(target, 0.7, drafter="none", dtype="bf16")
    found, drafted = answers(target, 0.7, drafter=str(folder), dtype="bf16")
    assert found == plain
    assert drafted > 50


@pytest.mark.parametrize("method", ["dspark", "eagle3"])
def test_a_network_of_the_whole_vocabulary_drafts_with_its_targets_head(method: str, target: Path, tmp_path: Path):
    net = drafter(method, **{**SIZES, "draft_vocab_size": SIZES["vocab_size"]})
    assert "lm_head.weight" not in net.tensors
    folder = save_drafter_folder(tmp_path / "net", net, card(target=open_target(str(target))[1]))
    natively, on_torch = (
        answers(target, 0.0, drafter=str(folder), dtype="fp32", draft_dtype=dtype) for dtype in ("fp32", "fp16")
    )
    assert natively[0] == on_torch[0]
    assert natively[1] > 50


def lean_folder(path: Path, target: Path) -> Path:
    """Write a drafter that leaves its head to its target."""
    checkpoint, facts = open_target(str(target))
    tables, net = tables_of(checkpoint), drafter("dspark", **SIZES)
    net.tensors["lm_head.weight"] = tensor_of(tables.head.rows((net.tensors["d2t"] + torch.arange(128)).numpy()))
    return save_drafter_folder(path, net, card(target=facts), dtype="bf16", tables=tables)


def test_packed_weights_are_saved_once_and_found_again(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    options = {"dtype": "bf16", "drafter": str(lean_folder(tmp_path / "net", target))}
    expected = answers(target, 0.7, **options)
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "1")
    assert answers(target, 0.7, **options) == expected
    saved = {path.name[: len("net-int8")]: path.stat() for path in (tmp_path / "cache" / "packed").glob("*.packed")}
    assert saved.keys() == {"net-int8", "target-b"}

    def packs(*_: object) -> None:
        raise AssertionError("What is saved is packed again.")

    monkeypatch.setattr(Packer, "bytes_of", packs)
    assert answers(target, 0.7, **options) == expected


def test_a_head_that_another_target_lends_is_packed_anew(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "1")
    folder = lean_folder(tmp_path / "net", target)
    other = write_tiny_model(tmp_path / "other", "llama", 8)
    for model in (target, other):
        answers(model, 0.0, dtype="bf16", drafter=str(folder))
    assert len(list((tmp_path / "cache" / "packed").glob("net-int8-*.packed"))) == 2


@pytest.mark.parametrize("ways", [{"threads": 2}, {"draft_width": 3, "draft_nodes": 9}, {"max_rows": 1}], ids=str)
def test_neither_threads_nor_trees_nor_company_change_a_token(folder: Path, target: Path, ways: dict[str, int]):
    plain, _ = answers(target, 0.7, drafter="none", dtype="bf16")
    assert answers(target, 0.7, drafter=str(folder), dtype="bf16", **ways)[0] == plain


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "bf16"}, "on the native core in int8."),
        ({"dtype": "int8"}, "on the native core in int8."),
        ({"dtype": "fp32"}, "on the native core in fp32."),
        ({"dtype": "int4"}, "on the native core in int8."),
        ({"dtype": "bf16", "draft_dtype": "int4"}, "on the native core in int4."),
        ({"dtype": "fp32", "draft_dtype": "bf16"}, "on the native core in bf16."),
        ({"dtype": "fp32", "draft_dtype": "fp16"}, "on torch in fp16."),
        ({"dtype": "bf16", "runner": "torch"}, "on torch in bf16."),
        ({"dtype": "bf16", "runner": "torch", "draft_dtype": "fp32"}, "on torch in fp32."),
    ],
    ids=str,
)
def test_the_start_up_line_says_what_runs_the_network(folder: Path, target: Path, options: dict[str, str], words: str):
    with LLM(str(target), drafter=str(folder), **OPTIONS, **options) as llm:
        assert f"Network {folder.name} {words}" in llm.summary()


def test_int8_is_refused_where_nothing_computes_in_it(folder: Path, target: Path):
    with pytest.raises(ConfigError, match=r"draft_dtype='int8' cannot serve a \w+ network"):
        LLM(str(target), drafter=str(folder), runner="torch", draft_dtype="int8", **OPTIONS)
    with pytest.raises(ConfigError, match="draft_dtype='int2' is not known"):
        LLM(str(target), drafter=str(folder), draft_dtype="int2", **OPTIONS)


@pytest.mark.real_model
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_the_shipped_network_changes_no_token(temperature: float):
    prompts = ["Tell me about the moon.", "What is 17 times 3? Think step by step."]
    params = SamplingParams(temperature=temperature, max_tokens=40, seed=9, ignore_eos=True)
    said = []
    for options in ({"drafter": "none"}, {"draft_network": "auto", "draft_sources": ("network",)}):
        with LLM(dtype="bf16", adaptive=False, threads=1, **options) as llm:
            results = llm.generate(prompts, params)
            said.append([result.choices[0].token_ids for result in results])
            drafted = sum(result.choices[0].stats.drafted for result in results)
    assert said[0] == said[1]
    assert drafted > 20
