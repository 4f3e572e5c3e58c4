"""The weights of a network that drafts on the native core, packed for it.

Legend: V and Vd target and draft vocabulary, d hidden size, m tapped layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.models.native_weights import LaidParts, Packer
from paradraft.models.packed_cache import PackedOrigin, load_parts
from paradraft.models.packed_parts import Planner
from paradraft.models.rope_config import RopeConfig
from paradraft.models.rope_frequencies import rope_frequencies
from paradraft.models.stored import StoredTensor, Table
from paradraft.native.weights import LayerWeights, ModelWeights
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import NetTensors
from paradraft.nets.serving.heads import TokenHeads
from paradraft.nets.shapes import HEAD, MASK_EMBEDDING, OFFSETS, wanted_tensors

_TAPS_NORM = "taps_norm"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NativeNetWeights:
    """A whole network. The model's vocabulary is the draft vocabulary, and states enter it instead of tokens."""

    model: ModelWeights
    embedding: Table  # [V, d] of the tokens that enter, as it was stored
    mask: FloatArray  # [d] the embedding of a token that is not known yet
    ids: IntArray  # [Vd] the target's id of each draft id
    heads: TokenHeads
    masked_state: FloatArray | None = None  # [d] what the taps of such a token would come to (P-EAGLE)


def pack_block(
    config: NetConfig, tensors: NetTensors, *, dtype: str, origin: PackedOrigin | None = None
) -> NativeNetWeights:
    """Return a block net (DFlash, DSpark) as the native core reads it.

    Rows of the embedding are read as they come up. dtype: one of models.native_weights.KINDS. origin: what the packed
    arrays are saved under, and found under at every later start; None keeps them in memory. Raises ModelError for what
    is misshapen, not finite or cannot be packed.
    """
    laid = lay_out(config, tensors.state, {_TAPS_NORM: "hidden_norm.weight"}, dtype=dtype, origin=origin)
    return gather(config, tensors, laid, layers_of(config, laid))


def lay_out(
    config: NetConfig,
    state: Mapping[str, StoredTensor],
    vectors: Mapping[str, str],
    *,
    dtype: str,
    origin: PackedOrigin | None,
) -> LaidParts:
    """Return the arrays of a network: taps, layers, last norm and head, and vectors of its own by their tensors' names.

    Raises what pack_block raises.
    """
    wanted = wanted_tensors(config)
    shapes = {**wanted.optional, **wanted.required}
    planner = Planner(shapes, dtype)
    planner.add_matrix("taps", ("fc.weight",))
    for name, tensor in vectors.items():
        planner.add_vector(name, tensor)
    for number in range(config.num_layers):
        planner.add_layer(f"layers.{number}.", f"layers.{number}.")
    planner.add_vector("final_norm", "norm.weight")
    planner.add_head("head", HEAD)
    parts, packer = planner.parts, Packer(state, shapes)
    if origin is None:
        return LaidParts(parts=parts, memory={name: packer.bytes_of(part) for name, part in parts.items()})
    memory, _ = load_parts(parts, packer, origin=origin, dtype=dtype)
    return LaidParts(parts=parts, memory=memory)


def layers_of(config: NetConfig, laid: LaidParts) -> tuple[LayerWeights, ...]:
    """Return the layers where they lie."""
    places = [f"layers.{number}." for number in range(config.num_layers)]
    return tuple(laid.layer(place, has_head_norms=config.has_head_norms) for place in places)


def gather(
    config: NetConfig,
    tensors: NetTensors,
    laid: LaidParts,
    layers: Sequence[LayerWeights],
    masked_state: FloatArray | None = None,
) -> NativeNetWeights:
    """Put a network together."""
    state, embedding = tensors.state, tensors.embedding
    return NativeNetWeights(
        model=ModelWeights(
            num_heads=config.num_heads,
            num_key_heads=config.num_key_heads,
            head_dim=config.head_dim,
            norm_eps=config.norm_eps,
            inverse_frequencies=rope_frequencies(
                RopeConfig(kind="default", theta=config.rope_theta),
                config.head_dim,
                positions=config.max_positions,
                trained_positions=config.max_positions,
            ),
            layers=tuple(layers),
            final_norm=laid.vector("final_norm"),
            head=laid.matrix("head"),
            taps=laid.matrix("taps"),
            taps_norm=laid.vector(_TAPS_NORM) if _TAPS_NORM in laid.parts else None,
        ),
        embedding=embedding,
        mask=state[MASK_EMBEDDING].floats().copy()
        if config.has_mask_embedding
        else rows_of(embedding, ints([config.mask_token_id]))[0],
        ids=_target_ids(config, state),
        heads=TokenHeads(config, lambda name: state[name].floats().copy()),
        masked_state=masked_state,
    )


def rows_of(table: Table, rows: IntArray) -> FloatArray:
    """Return some rows of a table in fp32."""
    return table.rows(rows).floats()


def _target_ids(config: NetConfig, state: Mapping[str, StoredTensor]) -> IntArray:
    places = np.arange(config.draft_vocab_size)
    return ints(places + state[OFFSETS].values if OFFSETS in state else places)
