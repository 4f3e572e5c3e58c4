"""A layer of the EAGLE family as it serves: its weights laid out for a device and joined where they read the same.

Legend: T tokens, d hidden size, H query heads, N key heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paradraft.models.rope import Angles, rotate
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.eagle_layer import EagleLayer, LayerInput
from paradraft.nets.serving.placed import Placed

Heads = tuple[Tensor, Tensor, Tensor]  # queries [T, H, D], keys and values [T, N, D]


class ServedLayer:
    """Computes what EagleLayer does."""

    def __init__(self, layer: EagleLayer, config: NetConfig, placed: Placed, *, is_first: bool) -> None:
        self._heads, self._key_heads, self._size = config.num_heads, config.num_key_heads, config.head_dim
        self._goes_on_normed = config.norm_before_residual
        attention = layer.self_attn
        self._input_norm = placed.norm(layer.input_layernorm)
        self._hidden_norm = placed.norm(layer.hidden_norm) if is_first else None
        self._projected = placed.linear(attention.q_proj, attention.k_proj, attention.v_proj)
        self._kept = placed.linear(attention.k_proj, attention.v_proj)
        self._query_norm = None if attention.q_norm is None else placed.norm(attention.q_norm)
        self._key_norm = None if attention.k_norm is None else placed.norm(attention.k_norm)
        self._output = placed.linear(attention.o_proj)
        self._inner_norm = placed.norm(layer.post_attention_layernorm)
        self._gate_up = placed.gated(layer.mlp.gate_proj, layer.mlp.up_proj)
        self._down = placed.linear(layer.mlp.down_proj)

    def enter(self, embedded: Tensor, states: Tensor) -> LayerInput:
        """Return the input of states [T, d]; the first layer reads embedded tokens [T, d] beside them."""
        if self._hidden_norm is None:
            return LayerInput(self._input_norm(states), states)
        normed = self._hidden_norm(states)
        pair = torch.cat([self._input_norm(embedded), normed], dim=-1)
        return LayerInput(pair, normed if self._goes_on_normed else states)

    def project(self, read: LayerInput, angles: Angles) -> Heads:
        """Return turned queries and keys, and values."""
        lines: Tensor = self._projected(read.normed)
        heads = lines.view(len(lines), self._heads + 2 * self._key_heads, self._size)
        queries = heads.narrow(1, 0, self._heads)
        keys = heads.narrow(1, self._heads, self._key_heads)
        values = heads.narrow(1, self._heads + self._key_heads, self._key_heads)
        queries = queries if self._query_norm is None else self._query_norm(queries)
        return rotate(queries, angles), rotate(self._normed_keys(keys), angles), values

    def project_kept(self, read: LayerInput, angles: Angles) -> tuple[Tensor, Tensor]:
        """Return turned keys and values alone."""
        lines: Tensor = self._kept(read.normed)
        keys, values = lines.view(len(lines), 2 * self._key_heads, self._size).chunk(2, dim=1)
        return rotate(self._normed_keys(keys), angles), values

    def finish(self, read: LayerInput, mixed: Tensor) -> Tensor:
        """Return the layer's output [T, d] for what attention mixed, [T, H * D]."""
        states = self._output.add_to(read.residual, mixed)
        return self._down.add_to(states, self._gate_up(self._inner_norm(states)))

    def _normed_keys(self, keys: Tensor) -> Tensor:
        return keys if self._key_norm is None else self._key_norm(keys)
