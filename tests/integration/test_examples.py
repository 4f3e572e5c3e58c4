"""Every file in examples/ runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *options]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=offline, check=False)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(name: str) -> None:
    done = run_example(name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_chain_of_draft_is_short_and_needs_fewer_passes_for_the_same_text() -> None:
    assert len((EXAMPLES / "chain_of_draft.py").read_text(encoding="utf-8").splitlines()) < 100
    lines = run_example("chain_of_draft.py").stdout.splitlines()
    assert len(lines) == 4
    assert all("the same text" in line for line in lines[1:])
    passes = [int(line.split(": ")[1].split()[0]) for line in lines]
    assert passes == sorted(passes, reverse=True)
    assert passes[1] < passes[0]


def test_chain_of_draft_with_a_useless_drafter_still_gives_the_same_text() -> None:
    done = run_example("chain_of_draft.py", "--noise", "20")
    assert done.returncode == 0, done.stderr
    assert "drafts changed the text" not in done.stderr
