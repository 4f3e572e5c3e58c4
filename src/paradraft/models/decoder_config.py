"""What the built-in decoder must know of a model, read from a Hugging Face configuration and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paradraft.core.errors import ModelError
from paradraft.models.families import FAMILIES, Family
from paradraft.models.rope_config import RopeConfig, read_rope
from paradraft.models.visibility import Window

_RESTORE = "Restore config.json from its source."
_MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderConfig:
    """A decoder-only transformer with pre-norms, rotary positions and a gated SiLU feed-forward."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_key_heads: int
    head_dim: int
    norm_eps: float
    max_positions: int
    trained_positions: int
    is_tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    has_head_norms: bool
    rope: RopeConfig
    windows: tuple[Window, ...]  # by layer
    has_rope: tuple[bool, ...]  # by layer


def why_unsupported(config: Mapping[str, object]) -> str | None:
    """Return why the built-in decoder is not the model a configuration describes, None if it is.

    A model it is not may still run through transformers; values that are wrong in themselves are left to
    read_decoder_config.
    """
    model_type = config.get("model_type")
    if model_type not in FAMILIES:
        return f"model_type {model_type!r} is not one of {', '.join(FAMILIES)}"
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        return f"hidden_act is {config['hidden_act']!r}, not silu"
    for source in (config, config.get("rope_parameters"), config.get("rope_scaling")):
        if isinstance(source, Mapping) and source.get("partial_rotary_factor", 1.0) not in (1, None):
            return f"partial_rotary_factor is {source['partial_rotary_factor']!r}, not 1"
    return None


def read_decoder_config(config: Mapping[str, object], *, max_positions: int | None = None) -> DecoderConfig:
    """Return the decoder a configuration describes.

    max_positions is the longest context to serve, the trained one by default. Raises ModelError for an
    architecture that why_unsupported names, an unknown rope type or a value that cannot be right.
    """
    reason = why_unsupported(config)
    if reason is not None:
        raise ModelError(f"The built-in decoder cannot run this model: {reason}.", remedy="Use transformers' runner.")
    family = FAMILIES[str(config["model_type"])]
    trained = _count(config, "max_position_embeddings")
    num_layers = _count(config, "num_hidden_layers")
    has_rope = _rope_layers(config, family, num_layers)
    heads, key_heads, head_dim = _heads(config, family)
    return DecoderConfig(
        model_type=str(config["model_type"]),
        vocab_size=_count(config, "vocab_size"),
        hidden_size=_count(config, "hidden_size"),
        intermediate_size=_count(config, "intermediate_size"),
        num_layers=num_layers,
        num_heads=heads,
        num_key_heads=key_heads,
        head_dim=head_dim,
        norm_eps=_eps(config),
        max_positions=max_positions or trained,
        trained_positions=trained,
        is_tied=_flag(config, "tie_word_embeddings", family.is_tied),
        qkv_bias=_bias(config, "attention_bias", family.qkv_bias),
        output_bias=_bias(config, "attention_bias", family.output_bias),
        mlp_bias=_bias(config, "mlp_bias", family.mlp_bias),
        has_head_norms=family.has_head_norms,
        rope=read_rope(config, default_theta=family.theta, positions=trained),
        windows=_windows(config, family, num_layers, has_rope),
        has_rope=has_rope,
    )


def _count(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    """Return a whole number from 1 to 2**31 - 1; null counts as absent where there is a default."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise ModelError(f"{key}={value!r} is not a whole number from 1 to {_MOST}.", remedy=_RESTORE)
    return value


def _flag(config: Mapping[str, object], key: str, default: bool) -> bool:
    value = default if config.get(key) is None else config[key]
    if not isinstance(value, bool):
        raise ModelError(f"{key}={value!r} is neither true nor false.", remedy=_RESTORE)
    return value


def _bias(config: Mapping[str, object], key: str, fixed: bool | None) -> bool:
    return _flag(config, key, False) if fixed is None else fixed


def _eps(config: Mapping[str, object]) -> float:
    value = config.get("rms_norm_eps", 1e-6)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ModelError(f"rms_norm_eps={value!r} is not a number between 0 and 1.", remedy=_RESTORE)
    return float(value)


def _heads(config: Mapping[str, object], family: Family) -> tuple[int, int, int]:
    """Return the number of query heads and key heads, and the head size."""
    heads = _count(config, "num_attention_heads")
    key_heads = _count(config, "num_key_value_heads", heads)
    size = _count(config, "hidden_size")
    if family.head_dim is None and config.get("head_dim") is None and size % heads:
        raise ModelError(f"hidden_size={size} is not a multiple of num_attention_heads={heads}.", remedy=_RESTORE)
    head_dim = _count(config, "head_dim", family.head_dim or max(1, size // heads))
    if heads % key_heads:
        raise ModelError(
            f"num_attention_heads={heads} is not a multiple of num_key_value_heads={key_heads}.", remedy=_RESTORE
        )
    if head_dim % 2 or head_dim < 4:
        raise ModelError(f"head_dim={head_dim} is not an even number from 4.", remedy=_RESTORE)
    return heads, key_heads, head_dim


def _rope_layers(config: Mapping[str, object], family: Family, num_layers: int) -> tuple[bool, ...]:
    if family.rope_gap is None:
        return (True,) * num_layers
    listed = config.get("no_rope_layers")
    if listed is None:
        gap = _count(config, "no_rope_layer_interval", family.rope_gap)
        return tuple((layer + 1) % gap != 0 for layer in range(num_layers))
    if not isinstance(listed, list) or len(listed) < num_layers or any(flag not in (0, 1) for flag in listed):
        raise ModelError("no_rope_layers is not a list of 0 and 1 for each layer.", remedy=_RESTORE)
    return tuple(bool(flag) for flag in listed[:num_layers])  # 1: the layer does have rope


def _windows(
    config: Mapping[str, object], family: Family, num_layers: int, has_rope: tuple[bool, ...]
) -> tuple[Window, ...]:
    if family.window_default is None and not family.window_switch:
        return (None,) * num_layers
    if family.window_switch and not _flag(config, "use_sliding_window", False):
        return (None,) * num_layers
    if config.get("sliding_window", family.window_default) is None:
        return (None,) * num_layers
    window = _count(config, "sliding_window", family.window_default)
    kinds = config.get("layer_types") if family.window_switch else None
    if kinds is not None:
        return tuple(window if is_sliding else None for is_sliding in _sliding_layers(kinds, num_layers))
    if family.rope_gap is not None:
        return tuple(None if rope else window for rope in has_rope)
    first = 0 if family.max_window_layers is None else _whole(config, "max_window_layers", family.max_window_layers)
    return tuple(window if layer >= first else None for layer in range(num_layers))


def _whole(config: Mapping[str, object], key: str, default: int) -> int:
    return 0 if config.get(key) == 0 else _count(config, key, default)


def _sliding_layers(kinds: object, num_layers: int) -> tuple[bool, ...]:
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or len(kinds) != num_layers or any(kind not in known for kind in kinds):
        raise ModelError(
            f"layer_types={kinds!r} is not a list of {' or '.join(known)} for each layer.", remedy=_RESTORE
        )
    return tuple(kind == "sliding_attention" for kind in kinds)
