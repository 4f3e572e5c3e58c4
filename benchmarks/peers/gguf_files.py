"""A safetensors folder as a GGUF file, so that llama.cpp runs the very same weights.

Prompts reach llama.cpp as token ids, so the file has no vocabulary, only its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from paradraft.core.errors import ModelError
from paradraft.models.checkpoint import find_model, open_checkpoint

KINDS = {"BF16": "BF16", "Q8_0": "Q8_0", "Q4_1": "Q4_1", "Q4_0": "Q4_0"}
ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
Array = npt.NDArray[np.float32]
_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_INNER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(folder: Path, path: Path, kind: str) -> Path:
    """Write the model of a folder with its matrices in this kind (of KINDS), norms and biases in fp32.

    Raises ModelError for an architecture or a rotary embedding that is not covered here.
    """
    checkpoint = open_checkpoint(find_model(str(folder)))
    architecture = _architecture(checkpoint.config)
    writer = gguf.GGUFWriter(path, architecture)
    _add_settings(writer, checkpoint.config)
    target = gguf.GGMLQuantizationType[KINDS[kind]]
    for name, values in _tensors(checkpoint.weights, checkpoint.config):
        if values.ndim < 2:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, target), raw_dtype=target)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a tensor; raise ModelError for one that no covered model has."""
    stem, _, kind = name.rpartition(".")
    if stem in _OUTER:
        return f"{_OUTER[stem]}.{kind}"
    _, _, layer, inner = (*stem.split(".", 3), "", "", "")[:4]
    if inner not in _INNER:
        raise ModelError(f"{name} has no name in GGUF files here.", remedy="Leave llama.cpp out for this model.")
    return f"blk.{layer}.{_INNER[inner]}.{kind}"


def interleave(rows: Array, heads: int) -> Array:
    """Return the rows [heads * size, ...] of each head with its second half between its first."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def _architecture(config: Mapping[str, object]) -> str:
    kind = str(config["model_type"])
    if kind not in ARCHITECTURES or config.get("rope_scaling"):
        raise ModelError(
            f"A {kind} model with rope_scaling={config.get('rope_scaling')} is not written as GGUF here.",
            remedy=f"Use one of {', '.join(ARCHITECTURES)} with a plain rotary embedding.",
        )
    return "llama" if kind == "mistral" else kind


def _add_settings(writer: gguf.GGUFWriter, config: Mapping[str, object]) -> None:
    def integer(key: str) -> int:
        return int(str(config[key]))

    head_size = int(str(config.get("head_dim") or integer("hidden_size") // integer("num_attention_heads")))
    writer.add_block_count(integer("num_hidden_layers"))
    writer.add_context_length(integer("max_position_embeddings"))
    writer.add_embedding_length(integer("hidden_size"))
    writer.add_feed_forward_length(integer("intermediate_size"))
    writer.add_head_count(integer("num_attention_heads"))
    writer.add_head_count_kv(integer("num_key_value_heads"))
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_rope_dimension_count(head_size)
    writer.add_rope_freq_base(float(str(config.get("rope_theta", 10000.0))))
    writer.add_layer_norm_rms_eps(float(str(config["rms_norm_eps"])))
    writer.add_vocab_size(integer("vocab_size"))
    writer.add_tokenizer_model("no_vocab")


def _tensors(weights: Mapping[str, object], config: Mapping[str, object]) -> Iterator[tuple[str, Array]]:
    """Yield names and fp32 values; llama.cpp's `llama` wants rotary pairs side by side."""
    is_tied = config.get("tie_word_embeddings") is True
    is_interleaved = config["model_type"] in ("llama", "mistral")
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    for name in weights:
        if is_tied and name == "lm_head.weight":
            continue
        values: Array = weights[name].float().numpy()  # type: ignore[attr-defined]
        module = name.split(".")[-2]
        if is_interleaved and module in heads:
            values = interleave(values, int(str(config[heads[module]])))
        yield gguf_name(name), values
