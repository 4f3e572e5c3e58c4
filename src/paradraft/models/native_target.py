"""Puts the native runner behind an opened model."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.models.build import Build
from paradraft.models.checkpoint import Checkpoint
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.packed_cache import load_packed
from paradraft.native.runner import NO_NEEDS, NativeOptions, NativeRunner


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeTarget:
    """A runner, and what is worth a word to the user."""

    runner: NativeRunner
    notes: tuple[str, ...]


def build_native_target(checkpoint: Checkpoint, build: Build) -> NativeTarget:
    """Return the runner over packed weights, from the cache where they are; raise ModelError for ones that misfit."""
    config = read_decoder_config(checkpoint.config)
    options = NativeOptions(
        name=checkpoint.source.name,
        dtype=build.dtype,
        max_positions=config.max_positions,
        num_pages=build.num_pages,
        page_size=build.page_size,
        num_threads=build.num_threads,
        needs=build.needs or NO_NEEDS,
    )
    packed = load_packed(checkpoint, config, dtype=build.dtype)
    return NativeTarget(runner=NativeRunner(packed.weights, options), notes=packed.notes)
