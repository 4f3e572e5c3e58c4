"""The commands of training on a tiny model: fit, export, evaluate, adapt, distill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paradraft.cli.main import app
from paradraft.models.tiny import write_tiny_model
from support.captures import write_capture

SIZES = ["block_size=3", "draft_vocab_size=60", "markov_rank=4", "mask_token_id=5", "tap_layers=[0, 1, 2]"]
FEW = ["--steps", "4", "--sequences", "2", "--lr", "0.01", "--set", "hold_out=6"]


def called(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["train", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("shards"))


def test_a_drafter_goes_from_shards_to_a_card_with_measured_figures(target: Path, shards: Path, tmp_path: Path) -> None:
    run, drafter, figures = tmp_path / "run", tmp_path / "drafter", tmp_path / "figures.json"
    settings = [part for size in SIZES for part in ("--set", size)]
    said = called("fit", shards, run, "-m", target, *FEW, *settings, "--report", 2)
    assert "4/4" in said
    assert "held-out length" in said
    assert (run / "loss.svg").read_text().startswith("<?xml")
    assert "4 steps done" in called("fit", shards, run, "-m", target, *FEW, *settings)
    called("export", run, drafter, "-m", target)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\n")
    evaluated = called(
        "evaluate", drafter, "-m", target, "--prompts", prompts, "-n", 8, "--shards", shards, "--hold-out", 6,
        "--texts", 2, "--dtype", "fp32", "--json", figures, "--set", "kv_tokens=2048",
    )  # fmt: skip
    assert "T=0" in evaluated
    assert "Simulation and service" in evaluated
    called("export", run, tmp_path / "carded", "-m", target, "--acceptance", figures, "--source-licence", "rule=MIT",
           "--shards", shards)  # fmt: skip
    card = json.loads((tmp_path / "carded" / "card.json").read_text())
    assert any(name.endswith("T=1 tau") for name in card["acceptance"])
    assert card["sources"][0]["licence"] == "MIT"
    adapted = called("adapt", drafter, shards, tmp_path / "adapt", "-m", target, *FEW, "--rank", 2)
    assert "4/4" in adapted
    assert called("export", tmp_path / "adapt", tmp_path / "merged", "-m", target).strip().endswith("merged")


def test_a_small_model_is_distilled(target: Path, shards: Path, tmp_path: Path) -> None:
    sizes = ["--layers", 1, "--hidden", 16, "--inner", 24, "--heads", 2, "--key-heads", 1]
    called("distill", shards, tmp_path / "run", tmp_path / "small", "-m", target, *FEW, *sizes)
    assert (tmp_path / "small" / "tokenizer.json").exists()


def test_an_unknown_value_is_refused_with_those_that_are_known(shards: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "fit", str(shards), str(tmp_path), "--set", "lerning_rate=1"])
    assert result.exit_code == 2
    assert "lerning_rate is not known" in result.output
