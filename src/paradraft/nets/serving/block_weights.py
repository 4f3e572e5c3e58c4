"""The weights of a block net as they serve, laid out for the machine.

Legend: n lines, d hidden size, L layers, H query heads, N key heads, D head size, m tapped layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.models.linear import GatedPair, Kernels, Linear, choose_kernels
from paradraft.models.norms import RmsNorm
from paradraft.nets.networks.block import BlockLayer, BlockNet
from paradraft.nets.networks.parts import Norm
from paradraft.nets.serving.place import ServingPlace


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
    kernels = choose_kernels(place.dtype, place.device)
    layers = [layer for layer in net.layers if isinstance(layer, BlockLayer)]
    attentions = [layer.self_attn for layer in layers]
    context = torch.cat([part for one in attentions for part in (one.k_proj.weight, one.v_proj.weight)])
    return BlockWeights(
        taps=kernels.layer(_placed(net.fc.weight, place), None),
        taps_norm=_norm(net.hidden_norm, place),
        context=kernels.layer(_placed(context, place), None),
        layers=tuple(_layer(layer, kernels, place) for layer in layers),
        norm=_norm(net.norm, place),
        head=kernels.layer(_placed(net.lm_head.weight, place), None),
        embedding=net.embed_tokens.weight.to(place.device),
        mask=_placed(net.mask_vector(), place),
    )


def _layer(layer: BlockLayer, kernels: Kernels, place: ServingPlace) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    joined = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    gate, up = _placed(mlp.gate_proj.weight, place), _placed(mlp.up_proj.weight, place)
    return LayerWeights(
        input_norm=_norm(layer.input_layernorm, place),
        query_key_value=kernels.layer(_placed(joined, place), None),
        query_norm=None if attention.q_norm is None else _norm(attention.q_norm, place),
        key_norm=None if attention.k_norm is None else _norm(attention.k_norm, place),
        output=kernels.layer(_placed(attention.o_proj.weight, place), None),
        inner_norm=_norm(layer.post_attention_layernorm, place),
        gate_up=kernels.gated((gate, None), (up, None)),
        down=kernels.layer(_placed(mlp.down_proj.weight, place), None),
    )


def _norm(norm: Norm, place: ServingPlace) -> RmsNorm:
    return RmsNorm(_placed(norm.weight, place), norm.eps)


def _placed(weight: Tensor, place: ServingPlace) -> Tensor:
    return weight.detach().to(device=place.device, dtype=place.dtype)
