"""The layers of the EAGLE family: llama's decoder layer, the first one with an input of double width.

Legend: T tokens, d hidden size, H query heads, N key heads, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paradraft.models.rope import Angles
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.parts import Mlp, Norm, Projections


@dataclass(frozen=True, slots=True, eq=False)
class LayerInput:
    """What attention reads, [T, d] or in the first layer [T, 2 * d], and what its output is added to, [T, d]."""

    normed: Tensor
    residual: Tensor


class EagleLayer(nn.Module):
    """One decoder layer. The first reads [embedding; feature], both normed, and goes on from the feature."""

    def __init__(self, config: NetConfig, *, is_first: bool) -> None:
        super().__init__()
        size = config.hidden_size
        self._goes_on_normed = config.norm_before_residual
        self.input_layernorm = Norm(size, config.norm_eps)
        if is_first:
            self.hidden_norm = Norm(size, config.norm_eps)
        self.self_attn = Projections(config, 2 * size if is_first else size)
        self.post_attention_layernorm = Norm(size, config.norm_eps)
        self.mlp = Mlp(size, config.intermediate_size)

    def enter(self, states: Tensor) -> LayerInput:
        """Return the input of a layer behind the first; states [T, d]."""
        return LayerInput(self.input_layernorm(states), states)

    def enter_pair(self, embedded: Tensor, features: Tensor) -> LayerInput:
        """Return the input of the first layer; embedded tokens and features, both [T, d]."""
        normed = self.hidden_norm(features)
        pair = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        return LayerInput(pair, normed if self._goes_on_normed else features)

    def keys_and_values(self, read: LayerInput, angles: Angles) -> tuple[Tensor, Tensor]:
        """Return turned keys and values [T, N, D]."""
        return self.self_attn.keys(read.normed, angles), self.self_attn.values(read.normed)

    def finish(self, residual: Tensor, mixed: Tensor) -> Tensor:
        """Return the layer's output [T, d] for what attention mixed, [T, H * D]."""
        states = residual + self.self_attn.o_proj(mixed)
        finished: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return finished
