"""The weights of an EAGLE network (EAGLE-3, P-EAGLE) packed for the native core.

To the core its first layer is one that reads sides: the embedding of the next token stands beside the feature, which
comes of taps or is the last state of the node before. Legend: d hidden size, m tapped layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paradraft.core.arrays import FloatArray
from paradraft.models.packed_cache import PackedOrigin
from paradraft.models.stored import StoredTensor
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import NetTensors
from paradraft.nets.serving.native_weights import NativeNetWeights, gather, lay_out, layers_of
from paradraft.nets.shapes import MASK_HIDDEN

_FEATURE_NORM = "feature_norm"


def pack_eagle(
    config: NetConfig, tensors: NetTensors, *, dtype: str, origin: PackedOrigin | None = None
) -> NativeNetWeights:
    """Return a network as the native core reads it; see pack_block."""
    vectors = {_FEATURE_NORM: "layers.0.hidden_norm.weight"}
    laid = lay_out(config, tensors.state, vectors, dtype=dtype, origin=origin)
    first, *rest = layers_of(config, laid)
    wide = replace(
        first,
        side_norm=first.input_norm,
        input_norm=laid.vector(_FEATURE_NORM),
        goes_on_normed=config.norm_before_residual,
    )
    return gather(config, tensors, laid, (wide, *rest), _masked_state(tensors.state))


def _masked_state(state: Mapping[str, StoredTensor]) -> FloatArray | None:
    """Return the feature [d] of P-EAGLE's learned taps [1, 1, m * d]."""
    if MASK_HIDDEN not in state:
        return None
    feature: FloatArray = state["fc.weight"].floats() @ state[MASK_HIDDEN].floats().reshape(-1)
    return feature
