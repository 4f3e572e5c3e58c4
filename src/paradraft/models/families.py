"""The architectures the built-in decoder covers: what each fixes, and assumes where a configuration is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One architecture. Everything else that tells models apart is in their configurations."""

    qkv_bias: bool | None = None  # None: as attention_bias says
    output_bias: bool | None = None
    mlp_bias: bool | None = None  # None: as mlp_bias says
    has_head_norms: bool = False
    is_tied: bool = False
    theta: float = 10_000.0
    head_dim: int | None = None
    window_default: int | None = None
    window_switch: bool = False  # sliding windows only if use_sliding_window is set
    max_window_layers: int | None = None  # layers below it see everything; None: the window holds for all
    rope_gap: int | None = None  # without no_rope_layers, every gap-th layer has no rope


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": Family(),
        "mistral": Family(qkv_bias=False, output_bias=False, mlp_bias=False, window_default=4096),
        "qwen2": Family(
            qkv_bias=True,
            output_bias=False,
            mlp_bias=False,
            window_default=4096,
            window_switch=True,
            max_window_layers=28,
        ),
        "qwen3": Family(
            mlp_bias=False,
            has_head_norms=True,
            head_dim=128,
            window_default=4096,
            window_switch=True,
            max_window_layers=28,
        ),
        "smollm3": Family(is_tied=True, theta=2_000_000.0, window_switch=True, rope_gap=4),
    }
)
