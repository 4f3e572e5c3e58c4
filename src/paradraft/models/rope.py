"""Rotary positions: frequencies of each kind, and the rotation of queries and keys.

Legend: T tokens, H heads, D head size. Pairs are (i, i + D/2), as in Hugging Face weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paradraft.models.rope_config import RopeConfig
from paradraft.models.rope_frequencies import rope_frequencies


def inverse_frequencies(rope: RopeConfig, head_dim: int, *, positions: int, trained_positions: int) -> Tensor:
    """Return the angle per position of each pair, fp32 [D/2]; see rope_frequencies."""
    return torch.from_numpy(rope_frequencies(rope, head_dim, positions=positions, trained_positions=trained_positions))


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
