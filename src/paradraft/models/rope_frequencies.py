"""How fast each pair of a head turns with the position, for every kind of rotary positions."""

from __future__ import annotations

import math

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.models.rope_config import RopeConfig

_ONE = np.float32(1)


def rope_frequencies(rope: RopeConfig, head_dim: int, *, positions: int, trained_positions: int) -> FloatArray:
    """Return the angle per position of each pair, [D/2] for heads of size D.

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
        return plain / np.float32(rope.factor)
    if rope.kind == "llama3":
        return _llama3(plain, rope)
    if rope.kind == "yarn":
        return _yarn(plain, rope, head_dim)
    return plain


def _plain(theta: float, head_dim: int) -> FloatArray:
    """Return the unscaled frequencies; the power is rounded to fp32 once, so it is the same on every machine."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    powers = np.power(theta, exponents.astype(np.float64))
    frequencies: FloatArray = _ONE / powers.astype(np.float32)
    return frequencies


def _llama3(plain: FloatArray, rope: RopeConfig) -> FloatArray:
    """Long waves slowed down by the factor, short ones kept, a blend in between (Llama 3.1)."""
    turns = plain * np.float32(rope.original_positions) / np.float32(2 * math.pi)
    blend = (turns - np.float32(rope.low_freq_factor)) / np.float32(rope.high_freq_factor - rope.low_freq_factor)
    blend = np.clip(blend, np.float32(0), _ONE)
    slowed: FloatArray = (_ONE - blend) * plain / np.float32(rope.factor) + blend * plain
    return slowed


def _yarn(plain: FloatArray, rope: RopeConfig, head_dim: int) -> FloatArray:
    """Interpolate slow dimensions and keep fast ones, with a ramp in between (arXiv 2309.00071, section 3.2)."""
    low = _dimension(rope.beta_fast, rope, head_dim)
    high = _dimension(rope.beta_slow, rope, head_dim)
    if rope.is_truncated:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    pairs = np.arange(head_dim // 2, dtype=np.float32)
    ramp = np.clip((pairs - np.float32(low)) / np.float32(width), np.float32(0), _ONE)
    slowed: FloatArray = plain / np.float32(rope.factor) * ramp + plain * (_ONE - ramp)
    return slowed


def _dimension(turns: float, rope: RopeConfig, head_dim: int) -> float:
    """Return the dimension that turns this often over the context of pretraining."""
    return head_dim * math.log(rope.original_positions / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
