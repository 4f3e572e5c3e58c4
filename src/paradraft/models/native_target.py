"""Puts the native runner behind an opened model."""

from __future__ import annotations

from paradraft.models.build import Build
from paradraft.models.checkpoint import Checkpoint
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.native_weights import pack_decoder
from paradraft.native.runner import NO_NEEDS, NativeOptions, NativeRunner


def build_native_target(checkpoint: Checkpoint, build: Build) -> NativeRunner:
    """Return the runner; raise ModelError for weights that do not fit."""
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
    return NativeRunner(pack_decoder(config, checkpoint.stored, dtype=build.dtype), options)
