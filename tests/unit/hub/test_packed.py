"""Packed weights in the cache: what they may take, and what goes when there is no room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from paradraft.core.errors import ConfigError, ModelError
from paradraft.hub.packed import disk_limit, make_room, mark_used, packed_entries, packed_path, remove_packed

GIGABYTE = 10**9


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path))
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "0.001")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 10 * GIGABYTE))
    for used, name in enumerate(("oldest", "older", "newest")):
        path = packed_path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(300_000))
        os.utime(path, (used, 0))
    return tmp_path / "packed"


def names() -> list[str]:
    return [entry.path.stem for entry in packed_entries()]


def test_entries_come_the_last_used_first():
    assert names() == ["newest", "older", "oldest"]
    mark_used(packed_path("oldest"))
    assert names() == ["oldest", "newest", "older"]
    assert packed_path("oldest").stat().st_mtime == 0  # by which its hash is remembered


def test_what_was_used_longest_ago_makes_room():
    make_room(packed_path("new"), 100_000)
    assert names() == ["newest", "older", "oldest"]
    make_room(packed_path("new"), 400_000)
    assert names() == ["newest", "older"]
    make_room(packed_path("newest"), 900_000)  # takes its own place
    assert names() == ["newest"]


def test_what_cannot_fit_removes_nothing(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ModelError, match=r"new.packed takes 0.01 GB, and PARADRAFT_PACKED_GB allows 0.00"):
        make_room(packed_path("new"), 10_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, GIGABYTE))
    with pytest.raises(ModelError, match=r"has 1.00 GB free"):
        make_room(packed_path("new"), 600_000)
    assert len(names()) == 3


@pytest.mark.parametrize("stated", ["all", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, stated: str):
    monkeypatch.setenv("PARADRAFT_PACKED_GB", stated)
    with pytest.raises(ConfigError, match="PARADRAFT_PACKED_GB"):
        disk_limit()


def test_the_limit_is_stated_in_gigabytes(monkeypatch: pytest.MonkeyPatch):
    for stated, limit in (("0", 0), ("1.5", 1_500_000_000), ("", 16 * GIGABYTE)):
        monkeypatch.setenv("PARADRAFT_PACKED_GB", stated)
        assert disk_limit() == limit


def test_files_are_removed_by_name_and_nothing_else(folder: Path):
    (folder / "other.txt").write_text("kept")
    assert [entry.path.stem for entry in remove_packed(["older"])] == ["older"]
    with pytest.raises(ModelError, match=r"'\.\./other'"):
        remove_packed(["newest", "../other"])
    assert names() == ["newest", "oldest"]
    assert (folder / "other.txt").exists()


def test_no_folder_holds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "none"))
    assert packed_entries() == []
