"""Rotary positions: frequencies of each kind, and the rotation of queries and keys.

Legend: T tokens, H heads, D head size. Pairs are (i, i + D/2), as in Hugging Face weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paradraft.models.rope_config import RopeConfig


def inverse_frequencies(rope: RopeConfig, head_dim: int, *, positions: int, trained_positions: int) -> Tensor:
    """Return the angle per position of each pair, fp32 [D/2].

    `positions` is the longest context served and `trained_positions` the one the configuration states. With dynamic
    scaling the frequencies depend on the length of the text, which would make cached keys, and keys shared by
    prefix, wrong as the text grows; so they are fixed once for `positions`. Up to `trained_positions` that is
    exactly what the model's own rule gives at every length.
    """
    if rope.kind == "dynamic":
        stretch = rope.factor * max(positions, trained_positions) / trained_positions - (rope.factor - 1)
        return _plain(rope.theta * stretch ** (head_dim / (head_dim - 2)), head_dim)
    plain = _plain(rope.theta, head_dim)
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        return _llama3(plain, rope)
    if rope.kind == "yarn":
        return _yarn(plain, rope, head_dim)
    return plain


def _plain(theta: float, head_dim: int) -> Tensor:
    return 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))


def _llama3(plain: Tensor, rope: RopeConfig) -> Tensor:
    """Long waves slowed down by the factor, short ones kept, a blend in between (Llama 3.1)."""
    turns = rope.original_positions * plain / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * plain / rope.factor + blend * plain


def _yarn(plain: Tensor, rope: RopeConfig, head_dim: int) -> Tensor:
    """Interpolate slow dimensions and keep fast ones, with a ramp in between (arXiv 2309.00071, section 3.2)."""
    low = _dimension(rope.beta_fast, rope, head_dim)
    high = _dimension(rope.beta_slow, rope, head_dim)
    if rope.is_truncated:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width).clamp(0.0, 1.0)
    return plain / rope.factor * ramp + plain * (1 - ramp)


def _dimension(turns: float, rope: RopeConfig, head_dim: int) -> float:
    """Return the dimension that turns this often over the context of pretraining."""
    return head_dim * math.log(rope.original_positions / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))


Angles = tuple[Tensor, Tensor]  # cosines and signed sines, [T, 1, D]


class Rotation:
    """Turns positions into cosines and sines, once per pass."""

    def __init__(self, frequencies: Tensor, *, attention_factor: float, dtype: torch.dtype) -> None:
        self._frequencies = torch.cat([frequencies, frequencies])
        half = frequencies.shape[0]
        factors = torch.full((2 * half,), attention_factor, dtype=torch.float32, device=frequencies.device)
        self._cos_factors = factors
        self._sin_factors = torch.cat([-factors[:half], factors[half:]])
        self._dtype = dtype

    def at(self, positions: Tensor) -> Angles:
        """Return cosines and signed sines [T, 1, D] of positions [T]; angles are fp32."""
        angles = positions[:, None].to(torch.float32) * self._frequencies
        cos = (angles.cos() * self._cos_factors).to(self._dtype)
        sin = (angles.sin() * self._sin_factors).to(self._dtype)
        return cos.unsqueeze(1), sin.unsqueeze(1)


def rotate(heads: Tensor, angles: Angles) -> Tensor:
    """Rotate heads [T, H, D]; the sign of the swapped half is in the sines."""
    cos, sin = angles
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin)
