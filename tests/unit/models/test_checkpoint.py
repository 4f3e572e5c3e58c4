from __future__ import annotations

import json
from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub.assets import ASSETS, asset_path
from paradraft.hub.remote import HubName, Snapshot
from paradraft.models import checkpoint
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.tiny import write_tiny_model
from support.wheels import CONTENT, tiny_asset


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[HubName]:
    names: list[HubName] = []

    def fetch(name: HubName) -> Snapshot:
        names.append(name)
        return Snapshot(folder=tmp_path, commit="c0ffee")

    monkeypatch.setattr(checkpoint, "fetch_snapshot", fetch)
    return names


def test_a_built_in_name_is_found_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ASSETS, "tiny", tiny_asset())
    asset_path("tiny").parent.mkdir(parents=True)
    asset_path("tiny").write_bytes(CONTENT)
    found = find_model("tiny")
    assert (found.name, found.path, found.revision) == ("tiny", asset_path("tiny"), None)
    with pytest.raises(ModelError, match="tiny has no revisions"):
        find_model("tiny", revision="main")


def test_a_path_that_exists_goes_before_a_hub_id(
    asked: list[HubName], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_model("owner/name").path == Path("owner/name")
    with pytest.raises(ModelError, match="owner/name has no revisions"):
        find_model("owner/name", revision="main")
    assert asked == []


@pytest.mark.parametrize(
    ("text", "revision", "expected"),
    [
        ("owner/name", None, None),
        ("owner/name@v1", None, "v1"),
        ("owner/name", "v2", "v2"),
        ("owner/name@v1", "v1", "v1"),
    ],
)
def test_a_hub_id_is_fetched_at_its_revision(
    text: str, revision: str | None, expected: str | None, asked: list[HubName]
) -> None:
    found = find_model(text, revision=revision)
    assert (found.name, found.revision) == ("owner/name", "c0ffee")
    assert asked == [HubName(repository="owner/name", revision=expected)]


def test_two_revisions_contradict_each_other(asked: list[HubName]) -> None:
    with pytest.raises(ModelError, match="contradict each other"):
        find_model("owner/name@v1", revision="v2")


@pytest.mark.parametrize("name", ["", "gpt", "a/b/c", "/no/such/folder", "missing.gguf"])
def test_what_names_no_model_is_refused_with_the_forms_there_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"smollm2-135m.*GGUF file.*owner/name@revision"):
        find_model(name or str(tmp_path / "nothing"))


def test_the_hash_follows_the_weights_and_nothing_else(tmp_path: Path) -> None:
    first = write_tiny_model(tmp_path / "a", "llama", 1)
    second = write_tiny_model(tmp_path / "b", "llama", 1)
    (second / "generation_config.json").write_text("{}")
    other = write_tiny_model(tmp_path / "c", "llama", 2)
    hashes = [open_checkpoint(find_model(str(folder))).sha256() for folder in (first, second, other)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "config.json is missing"),
        ("{", "config.json cannot be read as JSON"),
        ("[]", "config.json holds no JSON object"),
        (json.dumps({"model_type": "llama", "hidden_size": "48"}), "hidden_size='48' is not"),
    ],
)
def test_a_missing_or_damaged_configuration_is_named(content: str | None, reason: str, tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "a", "llama", 1)
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match=reason):
        open_checkpoint(find_model(str(folder)))


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"anything")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        open_checkpoint(find_model(str(tmp_path / "model.safetensors")))
