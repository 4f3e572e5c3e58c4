"""Loads a model by what the user calls it: finds its files, checks them, and puts a runner behind the target's port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import CapacityError, ModelError
from paradraft.core.ports import Needs, Target, Tokenizer
from paradraft.hub.wheels import Progress
from paradraft.models.build import Build, Running
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.choosing import why_not_native
from paradraft.models.native_target import build_native_target
from paradraft.models.place import device_for, dtype_for
from paradraft.models.threads import thread_count
from paradraft.models.tokenizer import load_tokenizer

_AUTO = Running()


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
    why_not_native: str | None = None  # the reason, where torch runs it
    notes: tuple[str, ...] = ()  # what else is worth a word to the user


def load_model(
    source: str,
    *,
    revision: str | None = None,
    running: Running = _AUTO,
    num_pages: int,
    page_size: int,
    needs: Needs | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a built-in name, a safetensors or .bin folder, a GGUF file or a hub id (`owner/name@revision`).

    needs: what a drafter taps. progress: bytes of a download. Raises ModelError for files that are missing, damaged,
    foreign or not supported, ConfigError for a runner, device or dtype that is unknown or cannot serve this model,
    CapacityError if memory does not suffice; nothing stays loaded then.
    """
    place = device_for(running.device)
    build = Build(
        dtype=dtype_for(running.dtype, place),
        device=place,
        num_pages=num_pages,
        page_size=page_size,
        num_threads=thread_count(running.threads),
        needs=needs,
    )
    found = find_model(source, revision=revision, progress=progress)
    tokenizer = load_tokenizer(found.path)
    checkpoint = open_checkpoint(found)
    _check_vocabulary(tokenizer, checkpoint)
    identity = ModelIdentity(name=found.name, sha256=checkpoint.sha256(), revision=found.revision, path=found.path)
    reason = why_not_native(running.runner, checkpoint.config, name=found.name, dtype=build.dtype, device=place)
    try:
        target, notes = _build_natively(checkpoint, build) if reason is None else _build_on_torch(checkpoint, build)
    except MemoryError as error:
        raise CapacityError(
            f"{found.name} does not fit into the memory of {place}, with its cache.",
            remedy="Set a smaller kv_tokens, choose dtype bf16, or use a smaller model.",
        ) from error
    return LoadedModel(target=target, tokenizer=tokenizer, identity=identity, why_not_native=reason, notes=notes)


def _build_natively(checkpoint: Checkpoint, build: Build) -> tuple[Target, tuple[str, ...]]:
    built = build_native_target(checkpoint, build)
    return built.runner, built.notes


def _build_on_torch(checkpoint: Checkpoint, build: Build) -> tuple[Target, tuple[str, ...]]:
    from paradraft.models.torch_target import build_torch_target  # the native path does without torch

    return build_torch_target(checkpoint, build), ()


def _check_vocabulary(tokenizer: Tokenizer, checkpoint: Checkpoint) -> None:
    rows = checkpoint.config.get("vocab_size")
    if isinstance(rows, int) and tokenizer.vocab_size > rows:
        raise ModelError(
            f"{checkpoint.source.path}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, and the model knows "
            f"{rows} tokens.",
            remedy="Use the tokenizer that belongs to these weights.",
        )
