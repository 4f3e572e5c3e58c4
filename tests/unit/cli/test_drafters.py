"""`paradraft drafters` on small drafters and a tiny target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from paradraft.models.tables import tables_of
from paradraft.models.tensors import tensor_of
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import card, drafter, full_drafter

SIZES = {"hidden_size": 48, "vocab_size": 259, "num_target_layers": 3, "tap_layers": (0, 1)}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    return write_tiny_model(tmp_path / "target", "llama", 3)


@pytest.fixture
def folder(tmp_path: Path, target: Path) -> Path:
    """A drafter for the target, with a card."""
    facts = open_target(str(target))[1]
    return save_drafter_folder(tmp_path / "drafter", full_drafter("dspark", **SIZES), card(target=facts))


def test_show_tells_what_a_drafter_is_and_where_it_comes_from(run, folder):
    output = run("drafters", "show", str(folder)).output
    for words in ("dspark, 4 drafts per round", "native", "outputs of layers 0, 1 of 3 layers", "259 of 259 tokens"):
        assert words in output
    for words in ("target", "sums (MIT), 1000 tokens", "sums T=0 tau: 1.5", "Apache-2.0"):
        assert words in output


def test_show_prints_one_object_for_programs(run, folder):
    shown = json.loads(run("drafters", "show", str(folder), "--json").output)
    assert shown["config"]["markov_rank"] == 6
    assert shown["card"]["acceptance"] == {"sums T=0 tau": 1.5}


def test_check_says_whether_a_drafter_fits(run, folder, target, tmp_path):
    result = run("drafters", "check", str(folder), "--target", str(target))
    assert result.exit_code == 0
    assert "fits" in result.output
    assert "Note" not in result.output
    assert "is a whole dspark drafter" in run("drafters", "check", str(folder)).output
    other = write_tiny_model(tmp_path / "other", "llama", 4)
    assert "Note: The weights of other" in run("drafters", "check", str(folder), "--target", str(other)).output
    deeper = write_tiny_model(tmp_path / "deeper", "llama", 3, {"num_hidden_layers": 4})
    refused = run("drafters", "check", str(folder), "--target", str(deeper))
    assert refused.exit_code == 2
    assert "made for 3 layers, the target has 4" in refused.output


@pytest.mark.parametrize("command", ["show", "check", "export"])
def test_what_is_no_drafter_ends_in_one_line(run, target, tmp_path, command):
    more = [str(tmp_path / "out")] if command == "export" else []
    for wrong, words in ((target, "describes no drafter"), (tmp_path / "nowhere", "is no folder")):
        result = run("drafters", command, str(wrong), *more)
        assert result.exit_code == 2
        assert words in result.output
        assert result.output.count("\n") == 1


def test_export_writes_another_layout_and_back(run, folder, target, tmp_path):
    out, back = tmp_path / "out", tmp_path / "back"
    command = ("drafters", "export", str(folder), str(out), "--layout", "speculators", "--target", str(target))
    assert run(*command, "--verifier", "owner/toy").output.strip() == str(out)
    content = json.loads((out / "config.json").read_text())
    assert content["aux_hidden_state_layer_ids"] == [1, 2]
    assert content["speculators_config"]["verifier"]["name_or_path"] == "owner/toy"
    assert run("drafters", "export", str(out), str(back)).exit_code == 0
    for name in ("config.json", "model.safetensors", "card.json"):
        assert (back / name).read_bytes() == (folder / name).read_bytes(), name


def test_export_takes_the_table_of_the_target_for_a_learned_mask(run, target, tmp_path):
    net = full_drafter("dflash", has_mask_embedding=True, **SIZES)
    folder = save_drafter_folder(tmp_path / "drafter", net, None)
    command = ("drafters", "export", str(folder), str(tmp_path / "out"), "--layout", "zlab")
    assert "Name the target" in run(*command).output
    assert run(*command, "--target", str(target)).exit_code == 0
    table = load_file(tmp_path / "out" / "model.safetensors")["embed_tokens.weight"]
    theirs = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(table[3:], theirs[3:])
    assert torch.equal(table[2], net.tensors["mask_embedding"])


def test_export_converts_the_type_of_the_weights(run, folder, tmp_path):
    assert run("drafters", "export", str(folder), str(tmp_path / "out"), "--dtype", "bf16").exit_code == 0
    assert load_drafter_folder(tmp_path / "out").state["fc.weight"].dtype == torch.bfloat16
    again = run("drafters", "export", str(folder), str(tmp_path / "out"))
    assert again.exit_code == 2
    assert "not an empty folder" in again.output


@pytest.fixture
def lean(tmp_path: Path, target: Path) -> Path:
    """A drafter that leaves its head's rows to the target."""
    checkpoint, facts = open_target(str(target))
    tables, net = tables_of(checkpoint), drafter("dspark", **{**SIZES, "draft_vocab_size": 24})
    net.tensors["lm_head.weight"] = tensor_of(tables.head.rows((net.tensors["d2t"] + torch.arange(24)).numpy())).float()
    return save_drafter_folder(tmp_path / "lean", net, card(target=facts), tables=tables)


def test_rows_left_to_the_target_are_told_and_asked_for(run, lean, target, tmp_path):
    assert "from target lm_head.weight" in run("drafters", "show", str(lean)).output
    assert json.loads(run("drafters", "show", str(lean), "--json").output)["from_target"] == ["lm_head.weight"]
    assert "but for lm_head.weight, which its target has" in run("drafters", "check", str(lean)).output
    assert run("drafters", "check", str(lean), "--target", str(target)).exit_code == 0
    refused = run("drafters", "export", str(lean), str(tmp_path / "out"))
    assert refused.exit_code == 2
    assert "leaves lm_head.weight to target" in refused.output
    assert "--target" in refused.output


def test_export_gives_rows_back_and_leaves_them_out_again(run, lean, target, tmp_path):
    whole, again, out = tmp_path / "whole", tmp_path / "again", tmp_path / "out"
    for source, made, more in ((lean, whole, ["--whole"]), (whole, again, []), (lean, out, ["--layout", "deepspec"])):
        assert run("drafters", "export", str(source), str(made), "--target", str(target), *more).exit_code == 0
    assert not load_drafter_folder(whole).from_target
    assert "lm_head.weight" in load_drafter_folder(out).state
    for name in ("config.json", "model.safetensors", "card.json"):
        assert (again / name).read_bytes() == (lean / name).read_bytes(), name


def test_rows_are_not_taken_from_other_weights(run, lean, tmp_path):
    other = write_tiny_model(tmp_path / "other", "llama", 4)
    refused = run("drafters", "export", str(lean), str(tmp_path / "out"), "--target", str(other), "--whole")
    assert refused.exit_code == 2
    assert "those of other are" in refused.output


def test_a_drafter_for_another_width_is_refused_at_export(run, target, tmp_path):
    folder = save_drafter_folder(tmp_path / "drafter", drafter("dflash"), None)
    refused = run("drafters", "export", str(folder), str(tmp_path / "out"), "--target", str(target))
    assert refused.exit_code == 2
    assert "hidden states of 32 values, the target's have 48" in refused.output
