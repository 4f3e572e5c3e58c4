"""The tensors a decoder is made of: their names, their shapes, and which must be there."""

from __future__ import annotations

from collections.abc import Mapping

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


def check_names(config: DecoderConfig, tensors: Mapping[str, object]) -> None:
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


def check_shape(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise ModelError for a tensor of another shape than its configuration asks for."""
    if found != expected:
        raise ModelError(
            f"{name} has the shape {list(found)}; config.json asks for {list(expected)}.",
            remedy="Use the config.json that belongs to these weights.",
        )


def not_finite(name: str, dtype: str) -> ModelError:
    """Return the error for a tensor that holds values which a number format cannot."""
    return ModelError(
        f"{name} holds values that are not finite in {dtype}.",
        remedy="Restore the weight files from their source, or choose a wider dtype.",
    )
