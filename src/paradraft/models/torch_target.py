"""Puts a runner on torch behind an opened model: the built-in decoder, or else transformers' modules."""

from __future__ import annotations

import torch

from paradraft.core.ports import Target
from paradraft.models.build import Build
from paradraft.models.checkpoint import Checkpoint
from paradraft.models.decoder import build_decoder
from paradraft.models.decoder_config import read_decoder_config, why_unsupported
from paradraft.models.device import DTYPES
from paradraft.models.runner import TorchRunner


def build_torch_target(checkpoint: Checkpoint, build: Build) -> Target:
    """Return the target; raise ModelError for weights that do not fit, MemoryError if memory does not suffice."""
    try:
        return _build(checkpoint, build)
    except torch.OutOfMemoryError as error:
        raise MemoryError from error
    except RuntimeError as error:  # what torch raises when the processor's memory is used up
        if "alloc" not in str(error):
            raise
        raise MemoryError from error


def _build(checkpoint: Checkpoint, build: Build) -> Target:
    name, dtype, device = checkpoint.source.name, DTYPES[build.dtype], torch.device(build.device)
    if why_unsupported(checkpoint.config) is not None:
        return _build_foreign(checkpoint, build)
    config = read_decoder_config(checkpoint.config)
    decoder = build_decoder(config, checkpoint.weights, dtype=dtype, device=device)
    return TorchRunner(decoder, num_pages=build.num_pages, page_size=build.page_size, needs=build.needs, name=name)


def _build_foreign(checkpoint: Checkpoint, build: Build) -> Target:
    from paradraft.models.foreign.runner import TransformersRunner, load_foreign  # takes a second to import

    model = load_foreign(
        checkpoint.config,
        checkpoint.weights,
        name=checkpoint.source.name,
        dtype=DTYPES[build.dtype],
        device=torch.device(build.device),
    )
    return TransformersRunner(model, num_pages=build.num_pages, page_size=build.page_size, needs=build.needs)
