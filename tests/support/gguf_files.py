"""Tiny GGUF files: the weights of a Hugging Face folder in the order and under the names of llama.cpp's converter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from gguf.constants import GGMLQuantizationType, GGUFValueType

from paradraft.models.tiny import tiny_config, tiny_tensors

Array = npt.NDArray[np.float32]
Metadata = dict[str, object]

TINY: Metadata = {  # a llama of two layers; hidden 64, so that rows are whole blocks of 32
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 128,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.dimension_count": 16,
}
TINY_CONFIG = tiny_config(
    "llama",
    {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
    },
)
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
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


def write_gguf(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Mapping[str, Array],
    *,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
) -> Path:
    """Write a file; matrices whose rows are whole blocks get the kind, the rest stays F32."""
    writer = gguf.GGUFWriter(path, str(metadata["general.architecture"]))
    for key, value in metadata.items():
        if key != "general.architecture":
            _add(writer, key, value)
    block_len = gguf.GGML_QUANT_SIZES[kind][0]
    for name, values in tensors.items():
        if kind is GGMLQuantizationType.F32 or values.ndim < 2 or values.shape[-1] % block_len:
            writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(weights: Mapping[str, torch.Tensor], *, heads: tuple[int, int] | None = None) -> dict[str, Array]:
    """Rename Hugging Face weights; heads (query, key) interleaves their rows, as in files of the architecture llama."""
    renamed: dict[str, Array] = {}
    for name, tensor in weights.items():
        values = tensor.float().numpy()
        if heads is not None and ("q_proj" in name or "k_proj" in name):
            values = interleave(values, heads[0] if "q_proj" in name else heads[1])
        renamed[gguf_name(name)] = values
    return renamed


def gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{kind}"
    _, _, layer, inner = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[inner]}.{kind}"


def interleave(rows: Array, num_heads: int) -> Array:
    """Row by row: within each head, row i of the first half goes to 2i and row i of the second half to 2i + 1."""
    result = np.empty_like(rows)
    size = len(rows) // num_heads
    for head in range(num_heads):
        for row in range(size // 2):
            result[head * size + 2 * row] = rows[head * size + row]
            result[head * size + 2 * row + 1] = rows[head * size + size // 2 + row]
    return result


def tiny_weights(*, seed: int = 0, is_tied: bool = False) -> dict[str, torch.Tensor]:
    """Return Hugging Face weights that fit TINY."""
    return tiny_tensors(TINY_CONFIG | {"tie_word_embeddings": is_tied}, seed)


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list) and value and isinstance(value[0], float):
        writer.add_key_value(key, value, GGUFValueType.ARRAY, sub_type=GGUFValueType.FLOAT32)
    else:
        assert isinstance(value, list)
        writer.add_array(key, value)
