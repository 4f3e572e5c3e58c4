"""Checks of a Hugging Face configuration that do not depend on the architecture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paradraft.core.errors import ModelError

_COUNTS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
)
_OPTIONAL_COUNTS = frozenset({"num_key_value_heads", "head_dim"})  # null is the same as absent
_POSITIVE = ("rms_norm_eps", "rope_theta")
_MOST = 2**31 - 1


def check_config(config: Mapping[str, object], path: Path) -> None:
    """Raise ModelError naming the first key whose value cannot be right. Absent keys are for the runner to judge."""
    for key in _COUNTS:
        value = config.get(key)
        if key not in config or (value is None and key in _OPTIONAL_COUNTS):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
            raise _refusal(path, key, value, f"a whole number from 1 to {_MOST}")
    for key in _POSITIVE:
        value = config.get(key, 1.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise _refusal(path, key, value, "a number above 0")
    _check_heads(config, path)
    if config.get("quantization_config") is not None:
        raise ModelError(
            f"{path}: the weights are quantised (quantization_config), a form that is not read.",
            remedy="Use the model in bf16, fp16 or fp32, or as a GGUF file.",
        )
    if not isinstance(config.get("model_type", ""), str) or not config.get("model_type"):
        raise _refusal(path, "model_type", config.get("model_type"), "the name of an architecture")


def _check_heads(config: Mapping[str, object], path: Path) -> None:
    heads, kv_heads, hidden = (config.get(key) for key in ("num_attention_heads", "num_key_value_heads", "hidden_size"))
    if isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads:
        raise _refusal(path, "num_key_value_heads", kv_heads, f"a divisor of num_attention_heads={heads}")
    if isinstance(heads, int) and isinstance(hidden, int) and config.get("head_dim") is None and hidden % heads:
        raise _refusal(path, "num_attention_heads", heads, f"a divisor of hidden_size={hidden}")


def _refusal(path: Path, key: str, value: object, wanted: str) -> ModelError:
    return ModelError(
        f"{path}: {key}={value!r} is not {wanted}.", remedy="Get the configuration again from the model's source."
    )
