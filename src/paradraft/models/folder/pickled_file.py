"""Tensors out of a PyTorch file, read with torch's weights-only unpickler: tensors and plain containers, no code."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch

from paradraft.core.errors import ModelError
from paradraft.models.tensors import stored_of
from paradraft.models.weight_map import Reader

_DTYPES = frozenset(
    {
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    }
)


def open_pickled(path: Path) -> dict[str, Reader]:
    """Return a reader for each tensor; raise ModelError if the file is damaged or holds more than tensors."""
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
    for name, tensor in content.items():
        if tensor.dtype not in _DTYPES:
            raise ModelError(
                f"{path}: the tensor {name} has type {tensor.dtype}, which is not supported.",
                remedy="Use the model in bf16, fp16 or fp32, or as a GGUF file.",
            )
    return {str(name): partial(stored_of, tensor) for name, tensor in content.items()}


def _load_pickled(path: Path) -> Any:  # torch.load returns whatever the file holds
    with path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)


def _what_else(error: Exception) -> str:
    """Return what the file would have called. Torch's own words end with advice to read the file all the same."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    return f" ({found[1]})" if found else ""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
