"""Packs the weights of a decoder for the native core.

Matrices are rounded to the number format that was asked for; norms, biases and rotary frequencies stay fp32. Each
tensor is read once and freed when it is packed, so the model is never held twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ModelError, ProtocolError
from paradraft.models.decoder_config import DecoderConfig
from paradraft.models.decoder_names import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    check_names,
    check_shape,
    expected_shapes,
    not_finite,
)
from paradraft.models.rope_frequencies import rope_frequencies
from paradraft.models.stored import StoredTensor, Values, narrow
from paradraft.native.packing import PackedMatrix, pack
from paradraft.native.records import LayerWeights, ModelWeights

KINDS: Mapping[str, str] = MappingProxyType({"fp32": "float32", "bf16": "bfloat16", "int8": "int8"})


def pack_decoder(config: DecoderConfig, weights: Mapping[str, StoredTensor], *, dtype: str) -> ModelWeights:
    """Return the weights, in Hugging Face names, as the native core reads them; dtype is one of KINDS.

    Raises ModelError naming tensors that are missing, foreign, misshapen or not finite, and if the core is absent.
    """
    check_names(config, weights)
    packer = _Packer(weights=weights, shapes=expected_shapes(config), dtype=dtype)
    return ModelWeights(
        num_heads=config.num_heads,
        num_key_heads=config.num_key_heads,
        head_dim=config.head_dim,
        norm_eps=config.norm_eps,
        inverse_frequencies=rope_frequencies(
            config.rope, config.head_dim, positions=config.max_positions, trained_positions=config.trained_positions
        ),
        rope_factor=config.rope.attention_factor,
        layers=tuple(_pack_layer(config, number, packer) for number in range(config.num_layers)),
        final_norm=packer.vector(FINAL_NORM),
        head=packer.named(EMBEDDING if config.is_tied else HEAD),
        embedding=None if config.is_tied else packer.rounded(EMBEDDING),
    )


def _pack_layer(config: DecoderConfig, number: int, packer: _Packer) -> LayerWeights:
    prefix = f"model.layers.{number}."
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    return LayerWeights(
        query_key_value=packer.matrix(f"{attention}q_proj", f"{attention}k_proj", f"{attention}v_proj"),
        output=packer.matrix(f"{attention}o_proj"),
        gate=packer.matrix(f"{mlp}gate_proj"),
        up=packer.matrix(f"{mlp}up_proj"),
        down=packer.matrix(f"{mlp}down_proj"),
        input_norm=packer.vector(f"{prefix}input_layernorm.weight"),
        inner_norm=packer.vector(f"{prefix}post_attention_layernorm.weight"),
        query_norm=packer.vector(f"{attention}q_norm.weight") if config.has_head_norms else None,
        key_norm=packer.vector(f"{attention}k_norm.weight") if config.has_head_norms else None,
        window=config.windows[number],
        has_rope=config.has_rope[number],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Packer:
    """Reads checked tensors and packs matrices in one number format."""

    weights: Mapping[str, StoredTensor]
    shapes: Mapping[str, tuple[int, ...]]
    dtype: str

    def matrix(self, *layers: str) -> PackedMatrix:
        """Return linear layers that read the same inputs, joined along their outputs, with their biases if any."""
        biases = [self.vector(f"{layer}.bias") for layer in layers if f"{layer}.bias" in self.shapes]
        return self._packed([f"{layer}.weight" for layer in layers], np.concatenate(biases) if biases else None)

    def named(self, name: str) -> PackedMatrix:
        """Return one tensor, packed."""
        return self._packed([name], None)

    def vector(self, name: str) -> FloatArray:
        """Return a vector in fp32."""
        return np.ascontiguousarray(self._read(name).floats())

    def rounded(self, name: str) -> Values:
        """Return a matrix as it lies: in fp32, or else as the bits of bf16."""
        stored = self._read(name)
        if self.dtype == "fp32":
            return np.ascontiguousarray(stored.floats())
        bits = stored.values if stored.is_bf16 else narrow(stored.floats())
        if StoredTensor(values=bits, is_bf16=True).find_not_finite() is not None:
            raise not_finite(name, KINDS[self.dtype])
        return np.ascontiguousarray(bits)

    def _packed(self, names: list[str], bias: FloatArray | None) -> PackedMatrix:
        parts = [_source(self._read(name)) for name in names]
        try:
            return pack(KINDS[self.dtype], parts, bias=bias)
        except ProtocolError as error:
            raise ModelError(
                f"{' + '.join(names)} in {self.dtype}: {error.problem}",
                remedy="Restore the weight files from their source, or choose a wider dtype.",
            ) from error

    def _read(self, name: str) -> StoredTensor:
        stored = self.weights[name]
        check_shape(name, stored.shape, self.shapes[name])
        return stored


def _source(stored: StoredTensor) -> Values:
    """Return values in a format that can be packed: fp32, fp16 or the bits of bf16."""
    is_known = stored.is_bf16 or stored.values.dtype in (np.float32, np.float16)
    return stored.values if is_known else stored.floats()
