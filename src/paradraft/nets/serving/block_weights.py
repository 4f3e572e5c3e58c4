"""The weights of a block net as they serve, laid out for the machine.

Legend: n lines, d hidden size, L layers, H query heads, N key heads, D head size, m tapped layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from paradraft.models.linear import GatedPair, Linear
from paradraft.models.norms import RmsNorm
from paradraft.nets.networks.block import BlockLayer, BlockNet
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.placed import Placed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LayerWeights:
    """One layer."""

    input_norm: RmsNorm
    query_key_value: Linear
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    output: Linear
    inner_norm: RmsNorm
    gate_up: GatedPair
    down: Linear


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockWeights:
    """A whole network. One layer makes the keys and values [n, L * 2 * N * D] of context lines for all its layers."""

    taps: Linear  # [n, m * d] -> [n, d]
    taps_norm: RmsNorm
    context: Linear
    layers: tuple[LayerWeights, ...]
    norm: RmsNorm
    head: Linear
    embedding: Tensor  # [V, d] in the type it came in
    mask: Tensor  # [d]


def read_block(net: BlockNet, place: ServingPlace) -> BlockWeights:
    """Return the net's weights in the type and on the device of the place."""
    placed = Placed(place)
    layers = [layer for layer in net.layers if isinstance(layer, BlockLayer)]
    context = [part for layer in layers for part in (layer.self_attn.k_proj, layer.self_attn.v_proj)]
    return BlockWeights(
        taps=placed.linear(net.fc),
        taps_norm=placed.norm(net.hidden_norm),
        context=placed.linear(*context),
        layers=tuple(_layer(layer, placed) for layer in layers),
        norm=placed.norm(net.norm),
        head=placed.table(net.lm_head.weight),
        embedding=net.embed_tokens.weight.to(place.device),
        mask=placed.weight(net.mask_vector()),
    )


def _layer(layer: BlockLayer, placed: Placed) -> LayerWeights:
    attention = layer.self_attn
    return LayerWeights(
        input_norm=placed.norm(layer.input_layernorm),
        query_key_value=placed.linear(attention.q_proj, attention.k_proj, attention.v_proj),
        query_norm=None if attention.q_norm is None else placed.norm(attention.q_norm),
        key_norm=None if attention.k_norm is None else placed.norm(attention.k_norm),
        output=placed.linear(attention.o_proj),
        inner_norm=placed.norm(layer.post_attention_layernorm),
        gate_up=placed.gated(layer.mlp.gate_proj, layer.mlp.up_proj),
        down=placed.linear(layer.mlp.down_proj),
    )
