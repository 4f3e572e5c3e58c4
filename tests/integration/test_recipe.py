"""One command makes the drafters that ship, on a tiny model here, and goes on where it was stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from paradraft.app.defaults import NETWORKS, TABLES
from paradraft.models.tiny import write_tiny_model
from support.source_tree import ROOT

RECIPE = ROOT / "recipes" / "smollm2-135m.sh"
TINY = {
    "NAME": "tiny", "METHODS": "dspark", "OWN_TURNS": "0", "MAX_TOKENS": "24", "ROWS": "4", "UNIT": "6", "PARTS": "1",
    "HELD_OUT": "none", "DTYPE": "fp32", "STEPS": "2", "SEQUENCES": "2", "ANCHORS": "4", "FIT_THREADS": "1",
    "SETTINGS": "block_size=3 draft_vocab_size=60 markov_rank=4 mask_token_id=5 hold_out=4", "LIMIT": "2",
    "OMP_NUM_THREADS": "1",
}  # fmt: skip


def make(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    problems = folder / "problems.txt"
    problems.write_text("".join(f"add {number} and {number + 3}\n" for number in range(12)))
    paths = {
        "GSM8K": str(problems),
        "PROMPTS": str(problems),
        "MODEL": str(folder / "model"),
        "OUT": str(folder / "out"),
    }
    paths |= {"PARADRAFT": str(Path(sys.executable).with_name("paradraft"))}
    return subprocess.run(
        [RECIPE], env={**os.environ, **TINY, **paths, **more}, capture_output=True, text=True, check=False
    )


def test_the_recipe_makes_a_table_and_a_drafter_with_measured_figures_and_makes_nothing_twice(tmp_path: Path):
    write_tiny_model(tmp_path / "model", "llama", 0)
    made = make(tmp_path)
    assert made.returncode == 0, made.stderr
    drafter, table = tmp_path / "out" / "tiny-dspark", tmp_path / "out" / "tiny.table"
    card = json.loads((drafter / "card.json").read_text())
    assert [(source["name"], source["licence"]) for source in card["sources"]] == [("gsm8k", "MIT")]
    assert any(name.endswith("T=0 tau") for name in card["acceptance"])
    assert json.loads((drafter / "config.json").read_text())["from_target"] == ["lm_head.weight"]
    before = (table.stat().st_mtime_ns, (drafter / "card.json").stat().st_mtime_ns)
    again = make(tmp_path)
    assert (again.returncode, again.stdout) == (0, "")
    assert (table.stat().st_mtime_ns, (drafter / "card.json").stat().st_mtime_ns) == before
    assert "begun_from" not in card["training"]
    (tmp_path / "out" / "made").mkdir()
    shutil.move(drafter, tmp_path / "out" / "made" / drafter.name)
    shutil.rmtree(tmp_path / "out" / "runs")
    begun = make(tmp_path, BEGIN_FROM=str(tmp_path / "out" / "made"))
    assert begun.returncode == 0, begun.stderr
    assert json.loads((drafter / "card.json").read_text())["training"]["begun_from"]["name"] == "tiny-dspark"


def test_without_problems_it_says_what_to_name():
    environment = {name: value for name, value in os.environ.items() if name != "GSM8K"}
    refused = subprocess.run([RECIPE], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "GSM8K=gsm8k_train.jsonl" in refused.stderr


def test_every_network_that_may_ship_is_made_by_the_recipe():
    usual = dict(re.findall(r"^(\w+)=\$\{\w+:-([^}]+)\}", RECIPE.read_text(), re.MULTILINE))
    assert set(NETWORKS.values()) <= {f"{usual['NAME']}-{method}" for method in usual["METHODS"].split()}
    assert set(TABLES.values()) == {f"{usual['NAME']}.table"}
