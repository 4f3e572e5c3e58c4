"""The weights of a safetensors or .bin folder, whole or in shards, checked before the first tensor is read.

Pickled files are read with torch's weights-only unpickler: tensors and plain containers, no code.
"""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from paradraft.core.errors import ModelError
from paradraft.models.folder.files import WeightFiles
from paradraft.models.weight_map import Reader, WeightMap

_DTYPES = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def read_folder(files: WeightFiles) -> WeightMap:
    """Return the weights of a folder; raise ModelError if a file is cut short, foreign, unsafe or incomplete."""
    open_file = _open_safetensors if files.is_safetensors else _open_pickled
    readers: dict[str, Reader] = {}
    for path in files.paths:
        found = open_file(path)
        _check_owner(found, path, files.owner)
        readers |= found
    missing = sorted(set(files.owner or {}) - set(readers))
    if missing:
        raise ModelError(
            f"{(files.owner or {})[missing[0]]} does not hold {missing[0]}, which the index says it does.",
            remedy="The shard belongs to another model; get it again from the model's source.",
        )
    return WeightMap(readers, origin=str(files.paths[0].parent))


def _check_owner(readers: dict[str, Reader], path: Path, owner: dict[str, Path] | None) -> None:
    foreign = sorted(name for name in readers if owner is not None and owner.get(name) != path)
    if foreign:
        raise ModelError(
            f"{path} holds {foreign[0]}, which the index does not place there.",
            remedy="The shard belongs to another model; get it again from the model's source.",
        )


def _open_safetensors(path: Path) -> dict[str, Reader]:
    try:
        handle: Any = safe_open(path, framework="pt")  # its methods carry no types
        names = list(handle.keys())
        kinds = {name: handle.get_slice(name).get_dtype() for name in names}
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} is not a whole safetensors file ({error}).",
            remedy="It is cut short or another kind of file; get it again from its source.",
        ) from error
    for name, kind in kinds.items():
        if kind not in _DTYPES:
            raise ModelError(
                f"{path}: the tensor {name} has type {kind}, which is not supported.",
                remedy="Use the model in bf16, fp16 or fp32, or as a GGUF file.",
            )
    return {name: partial(handle.get_tensor, name) for name in names}


def _open_pickled(path: Path) -> dict[str, Reader]:
    try:
        content = _load_pickled(path)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path} is refused: it holds more than tensors{_what_else(error)}.",
            remedy="Such a file can run code when it is read. Use a safetensors version of the model.",
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise ModelError(
            f"{path} is not a whole PyTorch file ({_first_line(error)}).",
            remedy="It is cut short or another kind of file; get it again from its source.",
        ) from error
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise ModelError(
            f"{path} holds no mapping of names to tensors.",
            remedy="Save the model's state_dict, or use a safetensors version of the model.",
        )
    return {str(name): partial(_same, tensor) for name, tensor in content.items()}


def _load_pickled(path: Path) -> Any:  # torch.load returns whatever the file holds
    with path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _what_else(error: Exception) -> str:
    """Return what the file would have called. Torch's own words end with advice to read the file all the same."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    return f" ({found[1]})" if found else ""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
