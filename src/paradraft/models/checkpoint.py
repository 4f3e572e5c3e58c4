"""Finds a model by what the user calls it and opens it: configuration, weights and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paradraft.core.errors import ModelError
from paradraft.hub.assets import ASSETS, bring
from paradraft.hub.digests import combined_digest
from paradraft.hub.remote import fetch_snapshot, parse_name
from paradraft.hub.wheels import Progress
from paradraft.models.config_check import check_config
from paradraft.models.folder.files import find_weights, read_json, read_optional_json
from paradraft.models.folder.weights import read_folder
from paradraft.models.gguf.file import read_gguf
from paradraft.models.weight_map import WeightMap

if TYPE_CHECKING:
    from paradraft.models.tensors import TensorMap


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A model on this machine."""

    name: str
    path: Path  # a folder or a GGUF file
    revision: str | None  # the hub's commit


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """An opened model: everything is checked, no tensor is read yet."""

    source: Source
    config: Mapping[str, object]  # as in config.json
    generation_config: Mapping[str, object]
    stored: WeightMap
    files: tuple[Path, ...]  # that hold the weights

    @property
    def weights(self) -> TensorMap:
        """Return the weights as tensors of torch."""
        from paradraft.models.tensors import TensorMap  # opening a model does not need torch

        return TensorMap(self.stored)

    def sha256(self) -> str:
        """Return the hash of the weight files: of the file, or of the names and hashes of several."""
        return combined_digest(self.files)


def find_model(name: str, *, revision: str | None = None, progress: Progress | None = None) -> Source:
    """Return where a model lies: a built-in name, a folder, a GGUF file or a hub id (`owner/name@revision`).

    Built-in and hub models are brought to this machine if need be. Raises ModelError for anything else.
    """
    models = [asset.name for asset in ASSETS.values() if asset.kind == "model"]
    path = Path(name).expanduser()
    if name in models or path.exists():
        if revision is not None:
            raise ModelError(f"{name} has no revisions, {revision!r} was given.", remedy="Leave the revision out.")
        local = bring(name, progress) if name in models else path
        return Source(name=name if name in models else path.resolve().name, path=local, revision=None)
    hub_name = parse_name(name)
    if hub_name is None:
        raise ModelError(
            f"{name!r} is no model: no such folder or file, and no name this version knows.",
            remedy=f"Use {', '.join(models)}, a model folder, a GGUF file, or a hub id like owner/name@revision.",
        )
    if revision is not None and hub_name.revision not in (None, revision):
        raise ModelError(f"{name} and revision={revision!r} contradict each other.", remedy="Give the revision once.")
    snapshot = fetch_snapshot(hub_name.at(revision or hub_name.revision))
    return Source(name=hub_name.repository, path=snapshot.folder, revision=snapshot.commit)


def open_checkpoint(source: Source) -> Checkpoint:
    """Open a model and check its files; raise ModelError if anything is missing, damaged or not supported."""
    if source.path.is_dir():
        return _open_folder(source)
    config, weights = read_gguf(source.path)
    check_config(config, source.path)
    return Checkpoint(source=source, config=config, generation_config={}, stored=weights, files=(source.path,))


def _open_folder(source: Source) -> Checkpoint:
    config = read_json(source.path / "config.json")
    check_config(config, source.path / "config.json")
    files = find_weights(source.path)
    return Checkpoint(
        source=source,
        config=config,
        generation_config=read_optional_json(source.path / "generation_config.json"),
        stored=read_folder(files),
        files=files.paths,
    )
