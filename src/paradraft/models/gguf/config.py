"""GGUF metadata as a Hugging Face configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ModelError
from paradraft.models.gguf.fields import Config, Fields
from paradraft.models.gguf.header import GgufHeader, Value
from paradraft.models.gguf.rope import rope_of

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_ATTENTION_BIASES = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias")
_MLP_BIASES = ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias")


def config_of(header: GgufHeader, path: Path, *, rope_factors: FloatArray | None) -> Config:
    """Return the Hugging Face configuration of a GGUF file; raise ModelError if it describes no model we know.

    rope_factors is the tensor rope_freqs.weight, None if there is none.
    """
    fields = Fields(header.metadata, path, architectures=tuple(ARCHITECTURES))
    if fields.get("expert_count"):
        raise fields.error("expert_count", "0: mixture-of-experts models are not supported from GGUF files")
    config: Config = {
        "architectures": [ARCHITECTURES[fields.architecture]],
        "model_type": fields.architecture,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": _vocab_size(header, path),
        "max_position_embeddings": fields.integer("context_length"),
        "hidden_size": fields.integer("embedding_length"),
        "intermediate_size": fields.integer("feed_forward_length"),
        "num_hidden_layers": fields.integer("block_count"),
        "rms_norm_eps": fields.number("attention.layer_norm_rms_epsilon"),
        "dtype": "bfloat16",
    }
    head_dim = _head_dim(fields)
    config |= _heads(fields, head_dim) | _biases(header, fields)
    config |= rope_of(fields, factors=rope_factors, head_dim=head_dim)
    return config | _window(fields, config) | _special_ids(header.metadata)


def _vocab_size(header: GgufHeader, path: Path) -> int:
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError(
            f"{path} has no tensor token_embd.weight.", remedy="Give a file with weights, not a vocabulary or adapter."
        )
    return embedding.shape[0]


def _head_dim(fields: Fields) -> int:
    head_dim = fields.integer(
        "attention.key_length", fields.integer("embedding_length") // fields.integer("attention.head_count")
    )
    for key in ("attention.value_length", "rope.dimension_count"):
        if fields.integer(key, head_dim) != head_dim:
            raise fields.error(key, f"the size of a head, {head_dim}; nothing else is supported")
    return head_dim


def _heads(fields: Fields, head_dim: int) -> Config:
    num_heads = fields.integer("attention.head_count")
    num_kv_heads = fields.integer("attention.head_count_kv", num_heads)
    if num_heads % num_kv_heads:
        raise fields.error("attention.head_count_kv", f"a divisor of the {num_heads} heads")
    return {"num_attention_heads": num_heads, "num_key_value_heads": num_kv_heads, "head_dim": head_dim}


def _biases(header: GgufHeader, fields: Fields) -> Config:
    if fields.architecture == "qwen2":  # its query, key and value biases are part of the architecture
        return {}
    config: Config = {}
    for key, names in (("attention_bias", _ATTENTION_BIASES), ("mlp_bias", _MLP_BIASES)):
        present = [name for name in names if f"blk.0.{name}" in header.tensors]
        if present and len(present) < len(names):
            raise ModelError(
                f"{fields.path}: of the biases {', '.join(names)} only {', '.join(present)} are there.",
                remedy="Such models are not supported from GGUF files; use the model's safetensors folder.",
            )
        config[key] = bool(present)
    return config


def _window(fields: Fields, config: Config) -> Config:
    """Return what a sliding window adds: among files of the architecture llama it tells Mistral apart."""
    if not fields.get("attention.sliding_window"):
        return {}
    window = fields.integer("attention.sliding_window")
    if fields.architecture != "llama" or config["attention_bias"] or config["mlp_bias"]:
        raise fields.error("attention.sliding_window", "absent; for this architecture it is not supported")
    return {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": window}


def _special_ids(metadata: Mapping[str, Value]) -> Config:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    found = {key: metadata.get(f"tokenizer.ggml.{name}_token_id") for key, name in names.items()}
    return {key: value for key, value in found.items() if isinstance(value, int)}
