"""A GGUF file as a configuration and weights under Hugging Face names.

Files of the architecture llama store the rows of each query and key head interleaved (first half of the rotary pairs
between the second); that is undone here. Other architectures keep the order that Hugging Face has.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.models.gguf.blocks import MatrixReader, read_tensor
from paradraft.models.gguf.config import config_of
from paradraft.models.gguf.fields import Config
from paradraft.models.gguf.header import GgufHeader, TensorRecord, read_header
from paradraft.models.stored import StoredTensor, Values
from paradraft.models.weight_map import Reader, WeightMap

ROPE_FACTORS = "rope_freqs.weight"
_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_INNER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


def map_file(path: Path, *, with_texts: bool = True) -> tuple[mmap.mmap, GgufHeader]:
    """Map a GGUF file into memory and read its head; raise ModelError if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{path} cannot be read ({error}).", remedy="Check the path; the file may be empty."
        ) from error
    return data, read_header(data, path, with_texts=with_texts)


def read_gguf(path: Path) -> tuple[Config, WeightMap]:
    """Return configuration and weights of a GGUF file; raise ModelError if it is damaged or not supported."""
    data, header = map_file(path, with_texts=False)
    factors = header.tensors.get(ROPE_FACTORS)
    config = config_of(header, path, rope_factors=None if factors is None else read_tensor(data, factors).floats())
    readers = {
        hugging_face_name(record.name, path): _reader(data, record, config)
        for record in header.tensors.values()
        if record.name != ROPE_FACTORS
    }
    return config, WeightMap(readers, origin=str(path))


def hugging_face_name(name: str, path: Path) -> str:
    """Return the Hugging Face name of a GGUF tensor; raise ModelError for a name no supported model has."""
    stem, _, kind = name.rpartition(".")
    if stem in _OUTER and kind in ("weight", "bias"):
        return f"{_OUTER[stem]}.{kind}"
    layer = _LAYER.fullmatch(name)
    if layer is not None and layer[2] in _INNER:
        return f"model.layers.{layer[1]}.{_INNER[layer[2]]}.{layer[3]}"
    raise ModelError(
        f"{path}: the tensor {name} belongs to no supported model.", remedy="Use the model's safetensors folder."
    )


def _reader(data: mmap.mmap, record: TensorRecord, config: Mapping[str, object]) -> Reader:
    read: Reader = MatrixReader(data, record) if len(record.shape) == 2 else partial(read_tensor, data, record)
    layer = _LAYER.fullmatch(record.name)
    if config["model_type"] not in ("llama", "mistral") or layer is None or layer[2] not in ("attn_q", "attn_k"):
        return read
    key = "num_attention_heads" if layer[2] == "attn_q" else "num_key_value_heads"
    return partial(_read_interleaved, read, int(str(config[key])))


def _read_interleaved(read: Reader, num_heads: int) -> StoredTensor:
    stored = read()
    return replace(stored, values=separate_halves(stored.values, num_heads))


def separate_halves(rows: Values, num_heads: int) -> Values:
    """Put the rows [heads * head_dim, ...] of each head from interleaved order back into two halves."""
    pairs = rows.reshape(num_heads, rows.shape[0] // num_heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
