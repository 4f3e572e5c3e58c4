"""The rotary embedding of a GGUF file as Hugging Face keys: none, linear, yarn and llama3."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.models.gguf.fields import Config, Fields

_DEFAULT_BASE = 10000.0
# Files keep llama3 scaling as one factor per frequency; every published model has these constants.
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_TOLERANCE = 1e-4
_NEUTRAL = {
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.yarn_attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (1.0, -1.0),
    "rope.scaling.yarn_log_multiplier": (0.0,),
}


def rope_of(fields: Fields, *, factors: FloatArray | None, head_dim: int) -> Config:
    """Return rope_theta and, where there is one, rope_scaling.

    factors [head_dim / 2] divide the frequencies, None if the file has none. Raises ModelError for other kinds.
    """
    for key, values in _NEUTRAL.items():
        if fields.get(key) not in (None, *values):
            raise fields.error(key, f"{values[0]}, the only value supported")
    base = fields.number("rope.freq_base", _DEFAULT_BASE)
    scaling = _scaling(fields)
    if factors is not None:
        if scaling is not None:
            raise fields.error("rope.scaling.type", "none, though the file has the tensor rope_freqs.weight too")
        scaling = _llama3(fields, factors, base, head_dim)
    return {"rope_theta": base} | ({} if scaling is None else {"rope_scaling": scaling})


def _scaling(fields: Fields) -> Config | None:
    kind = fields.get("rope.scaling.type")
    if kind in (None, "none"):
        legacy = fields.number("rope.scale_linear", 1.0)
        return None if legacy == 1.0 else {"rope_type": "linear", "factor": legacy}
    if kind == "linear":
        return {"rope_type": "linear", "factor": fields.number("rope.scaling.factor")}
    if kind == "yarn":
        return _yarn(fields)
    raise fields.error("rope.scaling.type", "one of none, linear, yarn")


def _yarn(fields: Fields) -> Config:
    return {
        "rope_type": "yarn",
        "factor": fields.number("rope.scaling.factor"),
        "original_max_position_embeddings": fields.integer("rope.scaling.original_context_length"),
        "beta_fast": fields.number("rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": fields.number("rope.scaling.yarn_beta_slow", 1.0),
    }


def _llama3(fields: Fields, factors: FloatArray, base: float, head_dim: int) -> Config | None:
    if factors.shape == (head_dim // 2,) and bool((factors == 1).all()):
        return None
    factor = float(factors.max())
    expected = llama3_factors(factor, base=base, head_dim=head_dim)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=_TOLERANCE):
        raise fields.error("rope.scaling.type", "enough to tell the meaning of the tensor rope_freqs.weight")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def llama3_factors(factor: float, *, base: float, head_dim: int) -> DoubleArray:
    """Return what llama3 scaling divides each frequency by, [head_dim / 2] (Llama 3.1 model card, rope scaling)."""
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    turns = _LLAMA3["original_max_position_embeddings"] / (2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim))
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)
