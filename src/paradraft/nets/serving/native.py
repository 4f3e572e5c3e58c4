"""Puts a network on the native core; the only place that knows which class serves which method there."""

from __future__ import annotations

from paradraft.models.packed_cache import PackedOrigin
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import NetTensors
from paradraft.nets.serving.native_block import NativeBlockNetwork
from paradraft.nets.serving.native_eagle import NativeChainNetwork, NativeMaskedNetwork
from paradraft.nets.serving.native_eagle_weights import pack_eagle
from paradraft.nets.serving.native_weights import pack_block
from paradraft.nets.shapes import EAGLE_METHODS, EMBEDDING, check_table

NativeServed = NativeBlockNetwork | NativeChainNetwork | NativeMaskedNetwork


def serve_on_core(
    config: NetConfig, tensors: NetTensors, target: NativeRunner, *, dtype: str, origin: PackedOrigin | None = None
) -> NativeServed:
    """Return a network on the threads of its target.

    dtype: one of models.native_weights.KINDS, of its weights. origin: what they are saved under once they are packed,
    None to pack them in memory only. Raises ModelError for tables of another target and for what is misshapen, not
    finite or cannot be packed.
    """
    check_table(config, EMBEDDING, tensors.embedding.shape)
    if config.method not in EAGLE_METHODS:
        weights = pack_block(config, tensors, dtype=dtype, origin=origin)
        return NativeBlockNetwork(config, weights, target, dtype=dtype)
    weights = pack_eagle(config, tensors, dtype=dtype, origin=origin)
    kind = NativeMaskedNetwork if config.method == "peagle" else NativeChainNetwork
    return kind(config, weights, target, dtype=dtype)
