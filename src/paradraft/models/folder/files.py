"""Which files of a model folder hold weights, and reading its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ModelError

SAFETENSORS = "model.safetensors"
PICKLED = "pytorch_model.bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightFiles:
    """The weight files of a folder. owner: the file each tensor must be in, None if there is no index."""

    is_safetensors: bool
    paths: tuple[Path, ...]
    owner: dict[str, Path] | None


def find_weights(folder: Path) -> WeightFiles:
    """Return a folder's weight files, safetensors before .bin; raise ModelError if there are none or one is missing."""
    for name in (SAFETENSORS, PICKLED):
        index = folder / f"{name}.index.json"
        if index.is_file():
            owner = _read_index(index)
            paths = tuple(sorted(set(owner.values())))
            return WeightFiles(is_safetensors=name == SAFETENSORS, paths=paths, owner=owner)
        if (folder / name).is_file():
            return WeightFiles(is_safetensors=name == SAFETENSORS, paths=(folder / name,), owner=None)
    raise ModelError(
        f"{folder} has no weights: none of {SAFETENSORS}, {PICKLED} or an index of their shards is in it.",
        remedy="Complete the folder, or give a GGUF file.",
    )


def read_json(path: Path) -> dict[str, object]:
    """Return the JSON object in a file; raise ModelError if it cannot be read or is none."""
    if not path.exists():
        raise ModelError(f"{path} is missing.", remedy="Complete the folder, or name another one.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{path} cannot be read as JSON ({error}).", remedy="Complete or repair the folder."
        ) from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object.", remedy="Complete or repair the folder.")
    return value


def read_optional_json(path: Path) -> dict[str, object]:
    """Return the JSON object in a file, empty if there is no such file."""
    return read_json(path) if path.is_file() else {}


def _read_index(index: Path) -> dict[str, Path]:
    entries = read_json(index).get("weight_map")
    if not isinstance(entries, dict) or not entries or not all(isinstance(name, str) for name in entries.values()):
        raise ModelError(f"{index}: weight_map does not map tensors to files.", remedy="Get the index again.")
    owner = {tensor: index.parent / name for tensor, name in entries.items()}
    for tensor, path in owner.items():
        if path.parent != index.parent or path.name != entries[tensor]:
            raise ModelError(f"{index} names {entries[tensor]!r}, outside the folder.", remedy="Get the index again.")
        if not path.is_file():
            raise ModelError(
                f"{path} is missing, and {index.name} says that it holds {tensor}.", remedy="Complete the folder."
            )
    return owner
