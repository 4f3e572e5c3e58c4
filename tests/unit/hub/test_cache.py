from __future__ import annotations

import errno
from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub.cache import cache_folder, make_folder, write_error


def test_the_environment_variable_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_without_it_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PARADRAFT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == tmp_path / "paradraft"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "paradraft"


def test_a_folder_that_cannot_be_made_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"file/inner cannot be written .* PARADRAFT_CACHE"):
        make_folder(tmp_path / "file" / "inner")


def test_a_full_disk_is_called_by_its_name() -> None:
    assert "the disk is full" in str(write_error(Path("x"), OSError(errno.ENOSPC, "No space left on device")))
