"""Models from the hub, pinned: the first use notes the commit and the hash of every file, later uses hold to them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paradraft.core.errors import ModelError
from paradraft.hub.cache import cache_folder, make_folder, write_error
from paradraft.hub.digests import file_digest

_NAME = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?")
_SMALL_FILES = ("*.json", "*.jinja", "tokenizer.model")
_SAFETENSORS = "model*.safetensors"
_PICKLED = "pytorch_model*.bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class HubName:
    """`owner/name`, and the revision wanted: a commit, tag or branch; None for the main branch as first seen."""

    repository: str
    revision: str | None

    def at(self, revision: str | None) -> HubName:
        """Return the same repository at another revision."""
        return HubName(repository=self.repository, revision=revision)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A model's files on this machine, all of one commit."""

    folder: Path
    commit: str


class Download(Protocol):
    """Brings matching files of a repository and returns their folder, which is named after the commit."""

    def __call__(self, repository: str, revision: str | None, patterns: tuple[str, ...], *, is_offline: bool) -> Path:
        """Raise OSError or ValueError if a file cannot be had."""
        ...


def parse_name(text: str) -> HubName | None:
    """Return the hub name that a text is, None if it is none."""
    match = _NAME.fullmatch(text)
    return HubName(repository=match[1], revision=match[2]) if match else None


def fetch_snapshot(name: HubName, download: Download | None = None) -> Snapshot:
    """Return the model's files, from this machine's copy if it is whole, else from the network.

    Raises ModelError if they cannot be had, or if a file is not the one that was pinned.
    """
    download = download or download_from_hub
    pin_file = cache_folder() / "hub" / f"{name.repository.replace('/', '--')}@{_file_part(name.revision)}.json"
    pin = _read_pin(pin_file)
    if pin is None:
        snapshot = _bring(name, name.revision, download, is_offline=False)
        _write_pin(pin_file, name, snapshot)
        return snapshot
    try:
        snapshot = _bring(name, pin.commit, download, is_offline=True)
        is_whole = all((snapshot.folder / file).is_file() for file in pin.files)
    except ModelError:
        is_whole = False
    if not is_whole:
        snapshot = _bring(name, pin.commit, download, is_offline=False)
    _check_pin(pin, snapshot, pin_file)
    return snapshot


def download_from_hub(repository: str, revision: str | None, patterns: tuple[str, ...], *, is_offline: bool) -> Path:
    """Bring files with huggingface_hub into its own cache; its settings (token, endpoint, offline mode) apply."""
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(repository, revision=revision, allow_patterns=list(patterns), local_files_only=is_offline)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pin:
    commit: str
    files: dict[str, str]  # SHA-256 by name


def _bring(name: HubName, revision: str | None, download: Download, *, is_offline: bool) -> Snapshot:
    try:
        folder = download(name.repository, revision, (*_SMALL_FILES, _SAFETENSORS), is_offline=is_offline)
        if not list(folder.glob(_SAFETENSORS)):
            folder = download(name.repository, revision, (*_SMALL_FILES, _PICKLED), is_offline=is_offline)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name.repository} at revision {revision or 'main'} cannot be brought from the hub "
            f"({_first_line(error)}).",
            remedy="Check the name, the revision and the network; without a network give a folder or a GGUF file.",
        ) from error
    return Snapshot(folder=folder, commit=folder.name)


def _read_pin(file: Path) -> _Pin | None:
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return _Pin(
            commit=str(content["commit"]), files={str(key): str(value) for key, value in content["files"].items()}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} cannot be read ({error}).", remedy="Remove it to pin the model again.") from error


def _write_pin(file: Path, name: HubName, snapshot: Snapshot) -> None:
    files = {path.name: file_digest(path) for path in sorted(snapshot.folder.iterdir()) if path.is_file()}
    content = {"repository": name.repository, "revision": name.revision, "commit": snapshot.commit, "files": files}
    make_folder(file.parent)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise write_error(file, error) from error


def _check_pin(pin: _Pin, snapshot: Snapshot, file: Path) -> None:
    for name, digest in pin.files.items():
        path = snapshot.folder / name
        if not path.is_file() or file_digest(path) != digest:
            raise ModelError(
                f"{path} is not the file that was pinned (SHA-256 {digest}).",
                remedy=f"Remove it to bring it again, or remove {file} to accept what is there now.",
            )


def _file_part(revision: str | None) -> str:
    return (revision or "first-seen").replace("/", "--")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
