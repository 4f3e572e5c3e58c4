"""The part that all public layouts share: a decoder layer's sizes in the keys of transformers."""

from __future__ import annotations

from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, refuse_variants

_PLAIN: dict[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "rope_scaling": ({"rope_type": "default"}, {"type": "default"}),
    "use_sliding_window": (False,),
    "partial_rotary_factor": (1.0, 1),
    "logit_scale": (1.0, 1),
    "quantization_config": (),
}
_PLAIN_ROPE = ("default",)
_FULL = "full_attention"


def read_decoder(keys: Keys) -> Fields:
    """Return the fields of a decoder layer; raise ModelError for a variant that is not computed here."""
    refuse_variants(keys, _PLAIN)
    odd = sorted({kind for kind in keys.texts("layer_types") if kind != _FULL})
    if odd:
        raise keys.refusal("layer_types", odd[0], f"{_FULL!r}, the only kind supported")
    heads = keys.whole("num_attention_heads", low=1)
    width = keys.whole("hidden_size", low=1)
    return {
        "hidden_size": width,
        "intermediate_size": keys.whole("intermediate_size", low=1),
        "num_layers": keys.whole("num_hidden_layers", low=1),
        "num_heads": heads,
        "num_key_heads": keys.whole("num_key_value_heads", low=1, default=heads),
        "head_dim": keys.whole("head_dim", low=1, default=max(width // heads, 1)),
        "norm_eps": keys.number("rms_norm_eps", default=1e-6),
        "rope_theta": _theta(keys),
        "max_positions": keys.whole("max_position_embeddings", low=1, default=2048),
        "vocab_size": keys.whole("vocab_size", low=1),
    }


def write_decoder(config: NetConfig, kind: str) -> dict[str, object]:
    """Return the keys of a decoder layer; kind: qwen3, whose heads are normed, or llama, whose are not."""
    return {
        "model_type": kind,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_key_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "max_position_embeddings": config.max_positions,
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": False,
    }


def why_no_decoder(config: NetConfig, methods: tuple[str, ...], *, has_head_norms: bool) -> str | None:
    """Return why a network is none of these methods in their public form, None if it is."""
    if config.method not in methods:
        return f"it is for {' and '.join(methods)}, and this is {config.method}"
    if config.has_head_norms != has_head_norms:
        return f"its layers {'norm' if has_head_norms else 'do not norm'} queries and keys per head"
    if config.markov_rank and config.method != "dspark":
        return f"it has no place for a causal correction on {config.method}"
    if config.has_confidence and config.method != "dspark":
        return f"it has no place for a confidence head on {config.method}"
    return None


def _theta(keys: Keys) -> float:
    """Return the base of the rotary frequencies, from either of the two places where transformers keep it."""
    inner = keys.inner("rope_parameters")
    refuse_variants(inner, {"rope_type": _PLAIN_ROPE, "type": _PLAIN_ROPE, "partial_rotary_factor": (1.0, 1)})
    return inner.number("rope_theta") if inner.has("rope_theta") else keys.number("rope_theta", default=10_000.0)
