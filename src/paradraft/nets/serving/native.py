"""Puts a network on the native core; the only place that knows which class serves which method there."""

from __future__ import annotations

from collections.abc import Mapping

from paradraft.models.stored import EVERY, StoredTensor
from paradraft.models.tables import Tables
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_block import NativeBlockNetwork
from paradraft.nets.serving.native_eagle import NativeChainNetwork, NativeMaskedNetwork
from paradraft.nets.serving.native_eagle_weights import pack_eagle
from paradraft.nets.serving.native_weights import pack_block
from paradraft.nets.shapes import EAGLE_METHODS, EMBEDDING, HEAD, check_tables

NativeServed = NativeBlockNetwork | NativeChainNetwork | NativeMaskedNetwork


def serve_on_core(
    config: NetConfig, state: Mapping[str, StoredTensor], tables: Tables | None, target: NativeRunner, *, dtype: str
) -> NativeServed:
    """Return a network on the threads of its target.

    state: tensors that were found to be this network's. tables: the target's, whose rows stand in for a table that is
    not among the tensors; None if both are. dtype: one of models.native_weights.KINDS, of its weights. Raises
    ModelError for tables of another target and for what is misshapen, not finite or cannot be packed.
    """
    embedding = state[EMBEDDING] if tables is None or EMBEDDING in state else tables.embedding
    head = state[HEAD] if tables is None or HEAD in state else tables.head
    check_tables(config, embedding.shape, head.shape)
    whole = {**state, HEAD: head.rows(EVERY)}
    if config.method not in EAGLE_METHODS:
        return NativeBlockNetwork(config, pack_block(config, whole, embedding, dtype=dtype), target, dtype=dtype)
    weights = pack_eagle(config, whole, embedding, dtype=dtype)
    kind = NativeMaskedNetwork if config.method == "peagle" else NativeChainNetwork
    return kind(config, weights, target, dtype=dtype)
