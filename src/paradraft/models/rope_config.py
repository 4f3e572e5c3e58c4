"""Rotary position settings, read from a Hugging Face configuration of either generation and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from paradraft.core.errors import ModelError

KINDS = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True, kw_only=True, slots=True)
class RopeConfig:
    """How positions turn into angles. Values that a kind does not read keep their defaults."""

    kind: str  # one of KINDS
    theta: float
    factor: float = 1.0
    original_positions: int = 0  # context length of pretraining, for llama3 and yarn
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0  # multiplies cosines and sines
    is_truncated: bool = True  # yarn rounds the bounds of its ramp to whole dimensions


def read_rope(config: Mapping[str, object], *, default_theta: float, positions: int) -> RopeConfig:
    """Return the rope settings of a configuration.

    `rope_parameters` is what transformers 5 writes; `rope_scaling` with `rope_theta` beside it is the older form.
    Raises ModelError for an unknown type or a value that cannot be right.
    """
    values = _settings(config)
    kind = values.get("rope_type", values.get("type", "default"))
    if kind not in KINDS:
        raise ModelError(
            f"rope type {kind!r} is not known.", remedy=f"Use a model whose rope type is one of {', '.join(KINDS)}."
        )
    theta = _number(values, "rope_theta", _number(config, "rope_theta", default_theta))
    if kind == "default":
        return RopeConfig(kind="default", theta=theta)
    original = _original_positions(values, config, positions)
    return RopeConfig(
        kind=str(kind),
        theta=theta,
        factor=_number(values, "factor", positions / original if kind == "yarn" else None),
        original_positions=original,
        low_freq_factor=_number(values, "low_freq_factor", 1.0 if kind != "llama3" else None),
        high_freq_factor=_number(values, "high_freq_factor", 4.0 if kind != "llama3" else None),
        beta_fast=_number(values, "beta_fast", 32.0),
        beta_slow=_number(values, "beta_slow", 1.0),
        attention_factor=_attention_factor(values, positions / original) if kind == "yarn" else 1.0,
        is_truncated=values.get("truncate", True) is not False,
    )


def _settings(config: Mapping[str, object]) -> Mapping[str, object]:
    for key in ("rope_parameters", "rope_scaling"):
        value = config.get(key)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise ModelError(f"{key}={value!r} is not a table.", remedy="Restore config.json from its source.")
        return value
    return {}


def _number(values: Mapping[str, object], key: str, default: float | None) -> float:
    """Return a positive number; an absent or null one is the default, and an error where there is none."""
    value = default if values.get(key) is None else values[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ModelError(
            f"rope setting {key}={value!r} is not a positive number.", remedy="Restore config.json from its source."
        )
    return float(value)


def _original_positions(values: Mapping[str, object], config: Mapping[str, object], positions: int) -> int:
    key = "original_max_position_embeddings"
    return int(_number(values, key, _number(config, key, positions)))


def _attention_factor(values: Mapping[str, object], fallback_factor: float) -> float:
    """Return yarn's factor on cosines and sines (arXiv 2309.00071, section 3.4, and the mscale variant)."""
    if values.get("attention_factor") is not None:
        return _number(values, "attention_factor", None)
    factor = _number(values, "factor", fallback_factor)
    if values.get("mscale") and values.get("mscale_all_dim"):
        mscale, mscale_all = _number(values, "mscale", None), _number(values, "mscale_all_dim", None)
        return _temperature(factor, mscale) / _temperature(factor, mscale_all)
    return _temperature(factor, 1.0)


def _temperature(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0
