"""Writes a model as a Hugging Face folder, so that other engines can run the very same weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from paradraft.core.errors import ModelError
from paradraft.hub.digests import compute_digest
from paradraft.models.checkpoint import Checkpoint
from paradraft.models.device import DTYPES
from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.folder.files import SAFETENSORS
from paradraft.models.new_folder import new_folder

HASHES = "hashes.json"
_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_HEAD = "lm_head.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What was written."""

    folder: Path
    num_bytes: int
    hashes: dict[str, str]  # SHA-256 by file name


def export_model(
    checkpoint: Checkpoint, tokenizer: FastTokenizer, folder: str | Path, *, dtype: str = "bf16"
) -> Exported:
    """Write model.safetensors, config, tokenizer, chat template, generation settings and hashes into a new folder.

    The folder appears only when it is complete. Raises ModelError if it exists and is not empty, if it cannot be
    written, or if a weight cannot be read.
    """
    target = Path(folder).expanduser()
    if dtype not in DTYPES:
        raise ModelError(f"dtype={dtype!r} is not known.", remedy=f"Choose one of {', '.join(DTYPES)}.")
    with new_folder(target) as partial:
        exported = _write(checkpoint, tokenizer, partial, DTYPES[dtype])
    return Exported(folder=target, num_bytes=exported.num_bytes, hashes=exported.hashes)


def _write(checkpoint: Checkpoint, tokenizer: FastTokenizer, folder: Path, dtype: torch.dtype) -> Exported:
    save_file(_tensors(checkpoint, dtype), folder / SAFETENSORS, metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(checkpoint, dtype))
    _write_json(folder / "generation_config.json", _generation_config(checkpoint, tokenizer))
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(checkpoint, tokenizer))
    hashes = {path.name: compute_digest(path) for path in sorted(folder.iterdir())}
    source = checkpoint.source
    origin = {"name": source.name, "revision": source.revision, "sha256": checkpoint.sha256()}
    _write_json(folder / HASHES, {"source": origin, "sha256": hashes})
    return Exported(folder=folder, num_bytes=sum(path.stat().st_size for path in folder.iterdir()), hashes=hashes)


def _tensors(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return copies in the new dtype: files with shared memory are refused. A tied head is not written."""
    is_tied = checkpoint.config.get("tie_word_embeddings") is True
    names = [name for name in checkpoint.weights if not (is_tied and name == _HEAD)]
    return {name: _converted(checkpoint.weights[name], dtype) for name in names}


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True).contiguous()


def _config(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, object]:
    kept = {key: value for key, value in checkpoint.config.items() if key not in ("dtype", "torch_dtype")}
    return {**kept, "torch_dtype": _NAMES[dtype]}


def _generation_config(checkpoint: Checkpoint, tokenizer: FastTokenizer) -> dict[str, object]:
    ends = {"eos_token_id": list(tokenizer.eos_ids)} if tokenizer.eos_ids else {}
    starts = {} if tokenizer.bos_id is None else {"bos_token_id": tokenizer.bos_id}
    padding = checkpoint.config.get("pad_token_id")
    pads = {"pad_token_id": padding} if isinstance(padding, int) else {}
    return {**starts, **ends, **pads, **checkpoint.generation_config}


def _tokenizer_config(checkpoint: Checkpoint, tokenizer: FastTokenizer) -> dict[str, object]:
    template = {} if tokenizer.chat_template is None else {"chat_template": tokenizer.chat_template}
    longest = checkpoint.config.get("max_position_embeddings")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **({"model_max_length": longest} if isinstance(longest, int) else {}),
        **tokenizer.named,
        **template,
    }


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
