"""Loads a model by what the user calls it: finds its files, checks them, and puts a runner behind the target's port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from paradraft.core.errors import CapacityError, ModelError
from paradraft.core.ports import Needs, Target, Tokenizer
from paradraft.hub.wheels import Progress
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.decoder import build_decoder
from paradraft.models.decoder_config import read_decoder_config, why_unsupported
from paradraft.models.device import choose_device, choose_dtype
from paradraft.models.runner import TorchRunner
from paradraft.models.tokenizer import load_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelIdentity:
    """Which weights these are, so that runs can be compared and repeated."""

    name: str
    sha256: str  # of the weight file, or of the names and hashes of several
    revision: str | None  # the hub's commit
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedModel:
    """A model ready to run. Close the target to free it."""

    target: Target
    tokenizer: Tokenizer
    identity: ModelIdentity


@dataclass(frozen=True, kw_only=True, slots=True)
class _Build:
    """How the target is to be set up."""

    dtype: torch.dtype
    device: torch.device
    num_pages: int
    page_size: int
    needs: Needs | None


def load_model(
    source: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    num_pages: int,
    page_size: int,
    needs: Needs | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a built-in name, a safetensors or .bin folder, a GGUF file or a hub id (`owner/name@revision`).

    dtype: auto, fp32, bf16 or fp16; device: auto, cpu or cuda. needs: what a drafter taps. progress: bytes of a
    download. Raises ModelError for files that are missing, damaged, foreign or not supported, ConfigError for an
    option, CapacityError if memory does not suffice; nothing stays loaded then.
    """
    place = choose_device(device)
    build = _Build(
        dtype=choose_dtype(dtype, place), device=place, num_pages=num_pages, page_size=page_size, needs=needs
    )
    found = find_model(source, revision=revision, progress=progress)
    tokenizer = load_tokenizer(found.path)
    checkpoint = open_checkpoint(found)
    _check_vocabulary(tokenizer, checkpoint)
    identity = ModelIdentity(name=found.name, sha256=checkpoint.sha256(), revision=found.revision, path=found.path)
    try:
        target = _build_target(checkpoint, build)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _no_memory(found.name, place) from error
    except RuntimeError as error:  # what torch raises when the processor's memory is used up
        if "alloc" not in str(error):
            raise
        raise _no_memory(found.name, place) from error
    return LoadedModel(target=target, tokenizer=tokenizer, identity=identity)


def _build_target(checkpoint: Checkpoint, build: _Build) -> Target:
    name = checkpoint.source.name
    if why_unsupported(checkpoint.config) is not None:
        return _build_foreign(checkpoint, build)
    config = read_decoder_config(checkpoint.config)
    decoder = build_decoder(config, checkpoint.weights, dtype=build.dtype, device=build.device)
    return TorchRunner(decoder, num_pages=build.num_pages, page_size=build.page_size, needs=build.needs, name=name)


def _build_foreign(checkpoint: Checkpoint, build: _Build) -> Target:
    from paradraft.models.foreign.runner import TransformersRunner, load_foreign  # takes a second to import

    model = load_foreign(
        checkpoint.config,
        checkpoint.weights,
        name=checkpoint.source.name,
        dtype=build.dtype,
        device=build.device,
    )
    return TransformersRunner(model, num_pages=build.num_pages, page_size=build.page_size, needs=build.needs)


def _check_vocabulary(tokenizer: Tokenizer, checkpoint: Checkpoint) -> None:
    rows = checkpoint.config.get("vocab_size")
    if isinstance(rows, int) and tokenizer.vocab_size > rows:
        raise ModelError(
            f"{checkpoint.source.path}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, and the model knows "
            f"{rows} tokens.",
            remedy="Use the tokenizer that belongs to these weights.",
        )


def _no_memory(name: str, place: torch.device) -> CapacityError:
    return CapacityError(
        f"{name} does not fit into the memory of {place}, with its cache.",
        remedy="Set a smaller kv_tokens, choose dtype bf16, or use a smaller model.",
    )
