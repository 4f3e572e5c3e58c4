"""The parts of which drafting networks are made, with the names of the public checkpoints.

Legend: T tokens, d hidden size, F feed-forward size, H query heads, N key heads, D head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from paradraft.models.rope import Angles, Rotation, inverse_frequencies, rotate
from paradraft.models.rope_config import RopeConfig
from paradraft.nets.config import NetConfig

INITIAL_SPREAD = 0.02


class Norm(nn.Module):
    """Divides each line by its root mean square and multiplies by a weight [d]."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, lines: Tensor) -> Tensor:
        """Return the norm of lines [..., d]; under autocast too it is made in the weight's type."""
        return functional.rms_norm(lines.to(self.weight.dtype), self.weight.shape, self.weight, self.eps)


class Mlp(nn.Module):
    """The gated feed-forward of the llama family (SwiGLU: Shazeer, arXiv 2002.05202)."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = linear(size, inner)
        self.up_proj = linear(size, inner)
        self.down_proj = linear(inner, size)

    def forward(self, lines: Tensor) -> Tensor:
        """Return the change of lines [..., d]."""
        changed: Tensor = self.down_proj(functional.silu(self.gate_proj(lines)) * self.up_proj(lines))
        return changed


class Projections(nn.Module):
    """Queries, keys and values of an attention layer, and its output.

    `width` is the size of what it reads, d or, in EAGLE's first layer, two times d.
    """

    def __init__(self, config: NetConfig, width: int) -> None:
        super().__init__()
        self._size = config.head_dim
        self.q_proj = linear(width, config.num_heads * config.head_dim)
        self.k_proj = linear(width, config.num_key_heads * config.head_dim)
        self.v_proj = linear(width, config.num_key_heads * config.head_dim)
        self.o_proj = linear(config.num_heads * config.head_dim, config.hidden_size)
        self.q_norm = Norm(config.head_dim, config.norm_eps) if config.has_head_norms else None
        self.k_norm = Norm(config.head_dim, config.norm_eps) if config.has_head_norms else None

    def queries(self, lines: Tensor, angles: Angles) -> Tensor:
        """Return turned queries [T, H, D] of lines [T, width]."""
        heads = self.q_proj(lines).unflatten(-1, (-1, self._size))
        return rotate(heads if self.q_norm is None else self.q_norm(heads), angles)

    def keys(self, lines: Tensor, angles: Angles) -> Tensor:
        """Return turned keys [T, N, D] of lines [T, width]."""
        heads = self.k_proj(lines).unflatten(-1, (-1, self._size))
        return rotate(heads if self.k_norm is None else self.k_norm(heads), angles)

    def values(self, lines: Tensor) -> Tensor:
        """Return values [T, N, D] of lines [T, width]."""
        heads: Tensor = self.v_proj(lines).unflatten(-1, (-1, self._size))
        return heads


def linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear layer without bias, freshly drawn."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=INITIAL_SPREAD)
    return layer


def rotation_of(config: NetConfig, *, dtype: torch.dtype, device: torch.device) -> Rotation:
    """Return the rotary positions of a network: halves paired, with its own base."""
    rope = RopeConfig(kind="default", theta=config.rope_theta)
    size = config.max_positions
    frequencies = inverse_frequencies(rope, config.head_dim, positions=size, trained_positions=size)
    return Rotation(frequencies.to(device), attention_factor=1.0, dtype=dtype)


def positions_in(doc: Tensor) -> Tensor:
    """Return the place of each token in its text, [T]; doc [T] has one number per text, texts in one piece."""
    index = torch.arange(len(doc), device=doc.device)
    begins = torch.ones_like(doc, dtype=torch.bool)
    begins[1:] = doc[1:] != doc[:-1]
    return index - torch.cummax(torch.where(begins, index, 0), dim=0).values
