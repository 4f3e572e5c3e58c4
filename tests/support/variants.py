"""Configurations that tell models of the decoder apart: rope types, and what families leave open."""

from __future__ import annotations

from collections.abc import Mapping

ROPES: Mapping[str, Mapping[str, object]] = {
    "default": {"rope_type": "default", "rope_theta": 3e4},
    "linear": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 1e4,
    },
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "rope_theta": 1e4},
}
VARIANTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "llama untied": ("llama", {"tie_word_embeddings": False}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with one key head": ("llama", {"num_key_value_heads": 1}),
    "llama with a key head per query head": ("llama", {"num_key_value_heads": 6}),
    "llama with small heads": ("llama", {"head_dim": 4}),
    "mistral without window": ("mistral", {"sliding_window": None}),
    "mistral with a window of one": ("mistral", {"sliding_window": 1}),
    "qwen2 untied, windows everywhere": ("qwen2", {"tie_word_embeddings": False, "max_window_layers": 0}),
    "qwen3 tied with biases": ("qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
    "qwen3 with windows by layer": (
        "qwen3",
        {
            "use_sliding_window": True,
            "sliding_window": 9,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "smollm3 with windows": ("smollm3", {"use_sliding_window": True, "sliding_window": 9}),
}
