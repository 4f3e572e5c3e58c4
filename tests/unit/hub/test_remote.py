from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub.remote import HubName, fetch_snapshot, parse_name

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """A hub with one repository whose main branch can move; `local` is this machine's copy."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.head, self.is_online = folder, COMMIT, True
        self.weights = "model.safetensors"
        self.asked: list[tuple[str | None, bool]] = []

    def __call__(self, repository: str, revision: str | None, patterns: tuple[str, ...], *, is_offline: bool) -> Path:
        self.asked.append((revision, is_offline))
        commit = revision if revision is not None and len(revision) == 40 else self.head
        place = self.folder / commit
        if is_offline or not self.is_online:
            if not place.is_dir():
                raise FileNotFoundError("no network and no copy\nmore")
            return place
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text("{}")
        if any(Path(self.weights).match(pattern) for pattern in patterns):
            (place / self.weights).write_text(f"weights of {commit}")
        return place


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "hub").mkdir()
    return Hub(tmp_path / "hub")


NAME = HubName(repository="owner/name", revision=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/name", NAME),
        ("owner/name@v1.0", HubName(repository="owner/name", revision="v1.0")),
        ("owner/na-me_2.5@refs/pr/3", HubName(repository="owner/na-me_2.5", revision="refs/pr/3")),
        ("./name", None),
        ("a/b/c", None),
        ("name", None),
        ("/etc/passwd", None),
        ("../up", None),
        ("owner/name@", None),
    ],
)
def test_hub_names_are_told_from_paths(text: str, expected: HubName | None) -> None:
    assert parse_name(text) == expected


def test_the_first_commit_seen_stays_when_the_branch_moves(hub: Hub) -> None:
    first = fetch_snapshot(NAME, hub)
    hub.head = "f" * 40
    assert fetch_snapshot(NAME, hub) == first
    assert first.commit == COMMIT


def test_a_second_use_needs_no_network(hub: Hub) -> None:
    first = fetch_snapshot(NAME, hub)
    hub.is_online = False
    assert fetch_snapshot(NAME, hub) == first
    assert hub.asked[-1] == (COMMIT, True)


def test_a_file_that_changed_under_the_pin_is_refused(hub: Hub) -> None:
    folder = fetch_snapshot(NAME, hub).folder
    (folder / "model.safetensors").write_text("weights of someone else")
    with pytest.raises(ModelError, match=r"model.safetensors is not the file that was pinned"):
        fetch_snapshot(NAME, hub)


def test_a_file_that_was_lost_is_brought_again(hub: Hub) -> None:
    folder = fetch_snapshot(NAME, hub).folder
    (folder / "model.safetensors").unlink()
    assert (fetch_snapshot(NAME, hub).folder / "model.safetensors").is_file()


def test_pickled_weights_are_asked_for_only_where_there_are_no_safetensors(hub: Hub) -> None:
    hub.weights = "pytorch_model.bin"
    assert (fetch_snapshot(NAME, hub).folder / "pytorch_model.bin").is_file()
    assert len(hub.asked) == 2


def test_without_a_network_the_error_says_what_to_do(hub: Hub) -> None:
    hub.is_online = False
    with pytest.raises(
        ModelError,
        match=r"owner/name at revision v2 cannot be brought from the hub \(no network and no copy\).*give a folder",
    ):
        fetch_snapshot(NAME.at("v2"), hub)


def test_a_damaged_pin_is_named(hub: Hub, tmp_path: Path) -> None:
    fetch_snapshot(NAME, hub)
    pin = next((tmp_path / "cache" / "hub").iterdir())
    pin.write_text('{"commit": 1}')
    with pytest.raises(ModelError, match="Remove it to pin the model again"):
        fetch_snapshot(NAME, hub)
