"""The weights of a safetensors or .bin folder, whole or in shards, checked before the first tensor is read."""

from __future__ import annotations

from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.models.folder.files import WeightFiles
from paradraft.models.folder.safetensors_file import open_safetensors
from paradraft.models.weight_map import Reader, WeightMap


def read_folder(files: WeightFiles) -> WeightMap:
    """Return the weights of a folder; raise ModelError if a file is cut short, foreign, unsafe or incomplete."""
    readers: dict[str, Reader] = {}
    for path in files.paths:
        found = open_safetensors(path) if files.is_safetensors else _open_pickled(path)
        _check_owner(found, path, files.owner)
        readers |= found
    missing = sorted(set(files.owner or {}) - set(readers))
    if missing:
        raise ModelError(
            f"{(files.owner or {})[missing[0]]} does not hold {missing[0]}, which the index says it does.",
            remedy="The shard belongs to another model; get it again from the model's source.",
        )
    return WeightMap(readers, origin=str(files.paths[0].parent))


def _open_pickled(path: Path) -> dict[str, Reader]:
    from paradraft.models.folder.pickled_file import open_pickled  # only torch reads such files

    return open_pickled(path)


def _check_owner(readers: dict[str, Reader], path: Path, owner: dict[str, Path] | None) -> None:
    foreign = sorted(name for name in readers if owner is not None and owner.get(name) != path)
    if foreign:
        raise ModelError(
            f"{path} holds {foreign[0]}, which the index does not place there.",
            remedy="The shard belongs to another model; get it again from the model's source.",
        )
