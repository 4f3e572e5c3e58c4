"""The tensors a decoder is made of: which must be there, in which shape, and that they hold numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.models.decoder_config import DecoderConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
_SHOWN = 5


def expected_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of the model by its Hugging Face name."""
    shapes: dict[str, tuple[int, ...]] = {
        EMBEDDING: (config.vocab_size, config.hidden_size),
        FINAL_NORM: (config.hidden_size,),
    }
    if not config.is_tied:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    for layer in range(config.num_layers):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in _layer_shapes(config).items()}
    return shapes


def _layer_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    size, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_key_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (size,),
        "post_attention_layernorm.weight": (size,),
    }
    linear = (
        ("self_attn.q_proj", queries, size, config.qkv_bias),
        ("self_attn.k_proj", keys, size, config.qkv_bias),
        ("self_attn.v_proj", keys, size, config.qkv_bias),
        ("self_attn.o_proj", size, queries, config.output_bias),
        ("mlp.gate_proj", inner, size, config.mlp_bias),
        ("mlp.up_proj", inner, size, config.mlp_bias),
        ("mlp.down_proj", size, inner, config.mlp_bias),
    )
    for name, outputs, inputs, has_bias in linear:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if has_bias:
            shapes[f"{name}.bias"] = (outputs,)
    if config.has_head_norms:
        shapes |= {f"self_attn.{name}_norm.weight": (config.head_dim,) for name in "qk"}
    return shapes


def check_names(config: DecoderConfig, tensors: Mapping[str, Tensor]) -> None:
    """Raise ModelError naming tensors that are missing or that the model has no place for."""
    expected = expected_shapes(config)
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise ModelError(f"The weights lack {_listed(missing)}.", remedy="Restore the weight files from their source.")
    extra = [name for name in tensors if name not in expected and not _is_harmless(name, config)]
    if extra:
        raise ModelError(
            f"The weights hold {_listed(extra)}, for which a {config.model_type} model has no place.",
            remedy="Use the config.json that belongs to these weights.",
        )


def _is_harmless(name: str, config: DecoderConfig) -> bool:
    """Whether the tensor can be left out: rope buffers of old files, and the copy of a tied embedding."""
    return name.endswith(".rotary_emb.inv_freq") or (config.is_tied and name == HEAD)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightReader:
    """Hands out checked tensors in one dtype on one device."""

    tensors: Mapping[str, Tensor]
    shapes: Mapping[str, tuple[int, ...]]
    dtype: torch.dtype
    device: torch.device

    def read(self, name: str) -> Tensor:
        """Return a tensor; raise ModelError if it has another shape or values that are not finite."""
        tensor = self.tensors[name]
        shape = self.shapes[name]
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{name} has the shape {list(tensor.shape)}; config.json asks for {list(shape)}.",
                remedy="Use the config.json that belongs to these weights.",
            )
        converted = tensor.to(device=self.device, dtype=self.dtype).contiguous()
        least, most = torch.aminmax(converted)
        if not (torch.isfinite(least) and torch.isfinite(most)):
            raise ModelError(
                f"{name} holds values that are not finite in {str(self.dtype).removeprefix('torch.')}.",
                remedy="Restore the weight files from their source, or choose a wider dtype.",
            )
        return converted

    def read_joined(self, names: list[str]) -> Tensor:
        """Return tensors joined along their outputs."""
        return torch.cat([self.read(name) for name in names])

    def read_optional(self, names: list[str]) -> Tensor | None:
        """Return tensors joined, or None if the model has none of them."""
        return self.read_joined(names) if names[0] in self.shapes else None
