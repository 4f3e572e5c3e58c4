"""The arrays that the native core reads of a decoder: their names, their forms and the tensors they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from paradraft.models.decoder_config import DecoderConfig
from paradraft.models.decoder_names import EMBEDDING, FINAL_NORM, HEAD, expected_shapes
from paradraft.native.packed_file import Part
from paradraft.native.packing import packed_bytes

# Kinds of packed matrices by the name of the number format.
KINDS: Mapping[str, str] = MappingProxyType({"fp32": "float32", "bf16": "bfloat16", "int8": "int8", "int4": "int4"})
# A head in int4 would cost more than all layers in it: it has the last word on every token, and as a tied embedding the
# first one too.
_HEAD_KINDS: Mapping[str, str] = MappingProxyType({**KINDS, "int4": "int8"})
VECTOR = "vector"  # fp32
ROWS_FP32, ROWS_BF16 = "rows of float32", "rows of bfloat16"  # a matrix row by row, as an embedding of its own lies
_PLAIN_BYTES = MappingProxyType({VECTOR: 4, ROWS_FP32: 4, ROWS_BF16: 2})
_MATRICES = MappingProxyType(
    {
        "query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "output": ("self_attn.o_proj",),
        "gate": ("mlp.gate_proj",),
        "up": ("mlp.up_proj",),
        "down": ("mlp.down_proj",),
    }
)
_NORMS = MappingProxyType(
    {
        "input_norm": "input_layernorm.weight",
        "inner_norm": "post_attention_layernorm.weight",
        "query_norm": "self_attn.q_norm.weight",
        "key_norm": "self_attn.k_norm.weight",
    }
)


def decoder_parts(config: DecoderConfig, dtype: str) -> dict[str, Part]:
    """Return a decoder's arrays by name, in the order in which a pass reads them; dtype is one of KINDS.

    Raises ModelError if the native core is absent.
    """
    planner = Planner(expected_shapes(config), dtype)
    for number in range(config.num_layers):
        planner.add_layer(f"model.layers.{number}.", f"layers.{number}.")
    planner.add_vector("final_norm", FINAL_NORM)
    planner.add_head("head", EMBEDDING if config.is_tied else HEAD)
    if not config.is_tied:
        planner.add("embedding", (EMBEDDING,), ROWS_FP32 if dtype == "fp32" else ROWS_BF16)
    return planner.parts


class Planner:
    """Names the arrays of a model one after the other; shapes are those of its tensors, dtype is one of KINDS."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], dtype: str) -> None:
        self.parts: dict[str, Part] = {}
        self._shapes = shapes
        self._kind, self._head_kind = KINDS[dtype], _HEAD_KINDS[dtype]

    def add_layer(self, prefix: str, place: str) -> None:
        """Add the arrays of a decoder layer, whose names begin with `place` and its tensors' names with `prefix`."""
        for name, layers in _MATRICES.items():
            self.add_matrix(f"{place}{name}", tuple(f"{prefix}{layer}.weight" for layer in layers))
            biases = tuple(bias for layer in layers if (bias := f"{prefix}{layer}.bias") in self._shapes)
            if biases:
                self.add_vector(f"{place}{name}.bias", *biases)
        for name, tensor in _NORMS.items():
            if f"{prefix}{tensor}" in self._shapes:
                self.add_vector(f"{place}{name}", f"{prefix}{tensor}")

    def add_matrix(self, name: str, tensors: tuple[str, ...]) -> None:
        """Add a packed matrix of tensors joined along their outputs."""
        self.add(name, tensors, self._kind)

    def add_head(self, name: str, tensor: str) -> None:
        """Add the packed matrix that makes the logits."""
        self.add(name, (tensor,), self._head_kind)

    def add_vector(self, name: str, *tensors: str) -> None:
        """Add a vector of tensors, one after the other."""
        self.add(name, tensors, VECTOR)

    def add(self, name: str, tensors: tuple[str, ...], form: str) -> None:
        """Add an array of this form."""
        first, *others = (self._shapes[tensor] for tensor in tensors)
        shape = (first[0] + sum(other[0] for other in others), *first[1:])
        is_plain = form in _PLAIN_BYTES
        num_bytes = prod(shape) * _PLAIN_BYTES[form] if is_plain else packed_bytes(form, shape[0], shape[1])
        self.parts[name] = Part(tensors=tensors, form=form, shape=shape, num_bytes=num_bytes)
