"""What starts and runs without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import torch

from paradraft.models.tables import tables_of
from paradraft.models.tensors import tensor_of
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import card, drafter
from support.native import needs_native
from support.source_tree import modules

HEAVY = ("torch", "transformers")
TORCH_ROOMS = ("models", "nets", "train")
# Files outside those rooms that need torch, each with its reason.
TORCH_FILES = {
    "lab/peer.py": "the peer that the product is measured against is transformers itself",
    "lab/doctor/torch_probe.py": "asks torch what it finds, in a process of its own",
}

SIZES = {"hidden_size": 48, "vocab_size": 259, "draft_vocab_size": 128, "num_target_layers": 3, "tap_layers": (0, 1)}

BLOCKER = """
import importlib, json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocker())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    source = BLOCKER.format(heavy=HEAVY) + code
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False)


def test_torch_is_imported_by_rooms_of_tensors_only():
    for module in modules():
        if module.room in TORCH_ROOMS or module.place in TORCH_FILES:
            continue
        heavy = {name for name in module.imports() if name.split(".")[0] in HEAVY}
        assert not heavy, f"{module.place} imports {heavy}"


def test_every_other_room_really_imports_without_torch():
    names = [
        module.name
        for module in modules()
        if module.room not in TORCH_ROOMS and module.place not in TORCH_FILES and not reaches_models(module)
    ]
    done = run(f"for name in {names!r}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def reaches_models(module) -> bool:
    """Whether a file of the drafters' or app's rooms is a network's own, and so imports models at its top."""
    return module.room == "drafters" and any(name.startswith("paradraft.models") for name in module.imports())


@pytest.mark.parametrize(
    "room", ["core", "kv", "verify", "scheduling", "structured", "engine", "hub", "observe", "cli"]
)
def test_rooms_that_promise_to_run_without_torch_have_no_exception(room):
    names = [module.name for module in modules() if module.room == room]
    assert names
    done = run(f"for name in {names!r}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def test_the_drafters_that_look_text_up_run_without_torch():
    done = run("import paradraft.drafters.ngram, paradraft.drafters.suffix, paradraft.drafters.guard")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["checkpoint", "decoder_config", "place", "rope_frequencies", "tokenizer", "visibility"]
)
def test_a_model_is_opened_without_torch(name):
    done = run(f"import paradraft.models.{name}")
    assert done.returncode == 0, done.stderr


def test_weights_are_read_without_torch(tmp_path):
    write_tiny_model(tmp_path / "model", "llama", 1)
    done = run(
        "from pathlib import Path; from paradraft.models.checkpoint import find_model, open_checkpoint; "
        f"stored = open_checkpoint(find_model({str(tmp_path / 'model')!r})).stored; "
        "assert sum(stored[name].values.size for name in stored) > 1000; assert 'torch' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr


@needs_native
def test_answers_are_found_without_torch(tmp_path):
    folder = write_tiny_model(tmp_path / "model", "llama", 1)
    done = run(
        f"from paradraft import LLM, SamplingParams; llm = LLM({str(folder)!r}, runner='native', threads=1); "
        "print(llm.generate('one two', SamplingParams(max_tokens=8, ignore_eos=True))[0].choices[0].token_ids)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(",") == 7


@needs_native
def test_a_grammar_is_kept_to_without_torch(tmp_path):
    folder = write_tiny_model(tmp_path / "model", "llama", 1)
    done = run(
        f"from paradraft import LLM, Grammar, SamplingParams; llm = LLM({str(folder)!r}, runner='native', threads=1); "
        "params = SamplingParams(grammar=Grammar.regex('[ab]{6}')); "
        "choice = llm.generate('one two', params)[0].choices[0]; assert 'torch' not in sys.modules; print(choice.text)"
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.strip()) <= set("ab")
    assert len(done.stdout.strip()) == 6


@needs_native
@pytest.mark.parametrize("is_whole", [False, True], ids=["lean", "whole"])
@pytest.mark.parametrize("method", ["dspark", "dflash", "eagle3", "peagle"])
def test_a_network_drafts_on_the_native_core_without_torch(method, is_whole, tmp_path):
    target = write_tiny_model(tmp_path / "model", "llama", 3)
    checkpoint, facts = open_target(str(target))
    tables, net = tables_of(checkpoint), drafter(method, **SIZES)
    net.tensors["lm_head.weight"] = tensor_of(tables.head.rows((net.tensors["d2t"] + torch.arange(128)).numpy()))
    folder = save_drafter_folder(
        tmp_path / "net", net, card(target=facts), dtype="bf16", tables=tables, is_whole=is_whole
    )
    assert bool(load_drafter_folder(folder).from_target) is not is_whole
    options = {"runner": "native", "threads": 1, "drafter": str(folder), "draft_price": 0.0, "adaptive": False}
    done = run(
        f"from paradraft import LLM, SamplingParams; llm = LLM({str(target)!r}, **{options!r}); "
        "choice = llm.generate('one two', SamplingParams(max_tokens=12, ignore_eos=True))[0].choices[0]; "
        "assert 'torch' not in sys.modules; assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason; "
        f"assert 'Network {method} on the native core' in llm.summary(); print(choice.stats.drafted)"
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_importing_the_package_imports_nothing_heavy():
    done = run("import paradraft; print(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert not {"numpy", *HEAVY} & set(loaded)


def test_help_runs_without_torch():
    done = run("sys.argv = ['paradraft', '--help']; from paradraft.cli.main import main; main()")
    assert done.returncode == 0, done.stderr
    assert "Usage: paradraft" in done.stdout


def test_the_console_command_exists():
    [command] = entry_points(group="console_scripts", name="paradraft")
    assert command.value == "paradraft.cli.main:main"
    assert callable(command.load())
