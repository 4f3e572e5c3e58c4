"""Puts a network on the native core; the only place that knows which class serves which method there."""

from __future__ import annotations

from collections.abc import Mapping

from paradraft.models.stored import StoredTensor
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_block import NativeBlockNetwork
from paradraft.nets.serving.native_eagle import NativeChainNetwork, NativeMaskedNetwork
from paradraft.nets.serving.native_eagle_weights import pack_eagle
from paradraft.nets.serving.native_weights import pack_block
from paradraft.nets.shapes import EAGLE_METHODS

NativeServed = NativeBlockNetwork | NativeChainNetwork | NativeMaskedNetwork


def serve_on_core(
    config: NetConfig, state: Mapping[str, StoredTensor], target: NativeRunner, *, dtype: str
) -> NativeServed:
    """Return a network on the threads of its target.

    state: its tensors, with both tables of the target. dtype: one of models.native_weights.KINDS, of its weights.
    Raises ModelError for what is misshapen, not finite or cannot be packed.
    """
    if config.method not in EAGLE_METHODS:
        return NativeBlockNetwork(config, pack_block(config, state, dtype=dtype), target, dtype=dtype)
    weights = pack_eagle(config, state, dtype=dtype)
    kind = NativeMaskedNetwork if config.method == "peagle" else NativeChainNetwork
    return kind(config, weights, target, dtype=dtype)
