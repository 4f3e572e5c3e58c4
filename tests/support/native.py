"""Native runners over tiny models, and the mark of tests that need the library."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest
from torch import Tensor

from paradraft.core.ports import Needs
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.native_weights import pack_decoder
from paradraft.models.tensors import stored_of
from paradraft.models.weight_map import WeightMap
from paradraft.native.library import find_library
from paradraft.native.runner import NO_NEEDS, NativeOptions, NativeRunner

needs_native = pytest.mark.skipif(find_library() is None, reason="the native core was not built")


def weight_map(tensors: Mapping[str, Tensor]) -> WeightMap:
    return WeightMap({name: partial(stored_of, tensor) for name, tensor in tensors.items()}, origin="test")


def native_runner(
    config: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    *,
    num_pages: int,
    page_size: int,
    dtype: str = "fp32",
    num_threads: int = 1,
    needs: Needs | None = None,
) -> NativeRunner:
    decoder = read_decoder_config(config)
    options = NativeOptions(
        name=decoder.model_type,
        dtype=dtype,
        max_positions=decoder.max_positions,
        num_pages=num_pages,
        page_size=page_size,
        num_threads=num_threads,
        needs=needs or NO_NEEDS,
    )
    return NativeRunner(pack_decoder(decoder, weight_map(tensors), dtype=dtype), options)
