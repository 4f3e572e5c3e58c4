"""Packs the weights of a decoder for the native core, and puts packed arrays together to a model.

Matrices are rounded to the number format that was asked for; norms, biases and rotary frequencies stay fp32. Each
tensor is read once and freed when it is packed, so the model is never held twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ModelError, ProtocolError
from paradraft.models.decoder_config import DecoderConfig
from paradraft.models.decoder_names import check_names, check_shape, expected_shapes, not_finite
from paradraft.models.packed_parts import KINDS, ROWS_BF16, ROWS_FP32, VECTOR, decoder_parts
from paradraft.models.rope_frequencies import rope_frequencies
from paradraft.models.stored import StoredTensor, Values, narrow
from paradraft.native.packed_file import Part
from paradraft.native.packing import Bytes, PackedMatrix, pack
from paradraft.native.weights import LayerWeights, ModelWeights


def pack_decoder(config: DecoderConfig, weights: Mapping[str, StoredTensor], *, dtype: str) -> ModelWeights:
    """Return the weights, in Hugging Face names, as the native core reads them; dtype is one of KINDS.

    Raises ModelError naming tensors that are missing, foreign, misshapen or not finite, and if the core is absent.
    """
    parts, packer = decoder_parts(config, dtype), decoder_packer(config, weights)
    return assemble_decoder(config, parts, {name: packer.bytes_of(part) for name, part in parts.items()})


def decoder_packer(config: DecoderConfig, weights: Mapping[str, StoredTensor]) -> Packer:
    """Return what packs a decoder's tensors; raise ModelError naming those that are missing or foreign."""
    check_names(config, weights)
    return Packer(weights, expected_shapes(config))


def assemble_decoder(config: DecoderConfig, parts: Mapping[str, Part], memory: Mapping[str, Bytes]) -> ModelWeights:
    """Return a decoder over the memory of its parts, which it keeps and reads in place."""
    laid = LaidParts(parts=parts, memory=memory)
    return ModelWeights(
        num_heads=config.num_heads,
        num_key_heads=config.num_key_heads,
        head_dim=config.head_dim,
        norm_eps=config.norm_eps,
        inverse_frequencies=rope_frequencies(
            config.rope, config.head_dim, positions=config.max_positions, trained_positions=config.trained_positions
        ),
        rope_factor=config.rope.attention_factor,
        layers=tuple(_layer(config, number, laid) for number in range(config.num_layers)),
        final_norm=laid.vector("final_norm"),
        head=laid.matrix("head"),
        embedding=None if config.is_tied else laid.rows("embedding"),
    )


def _layer(config: DecoderConfig, number: int, laid: LaidParts) -> LayerWeights:
    layer = laid.layer(f"layers.{number}.", has_head_norms=config.has_head_norms)
    return replace(layer, window=config.windows[number], has_rope=config.has_rope[number])


@dataclass(frozen=True, kw_only=True, slots=True)
class LaidParts:
    """Parts where they lie."""

    parts: Mapping[str, Part]
    memory: Mapping[str, Bytes]

    def layer(self, place: str, *, has_head_norms: bool) -> LayerWeights:
        """Return the decoder layer whose parts' names begin so; it has rotary positions and sees everything."""
        return LayerWeights(
            query_key_value=self.matrix(f"{place}query_key_value"),
            output=self.matrix(f"{place}output"),
            gate=self.matrix(f"{place}gate"),
            up=self.matrix(f"{place}up"),
            down=self.matrix(f"{place}down"),
            input_norm=self.vector(f"{place}input_norm"),
            inner_norm=self.vector(f"{place}inner_norm"),
            query_norm=self.vector(f"{place}query_norm") if has_head_norms else None,
            key_norm=self.vector(f"{place}key_norm") if has_head_norms else None,
        )

    def matrix(self, name: str) -> PackedMatrix:
        """Return a packed matrix, with its bias if there is one."""
        part, bias = self.parts[name], f"{name}.bias"
        return PackedMatrix(
            kind=part.form,
            outputs=part.shape[0],
            inputs=part.shape[1],
            data=self.memory[name],
            bias=self.vector(bias) if bias in self.parts else None,
        )

    def vector(self, name: str) -> FloatArray:
        """Return a vector."""
        values: FloatArray = self.memory[name].view(np.float32)
        return values

    def rows(self, name: str) -> Values:
        """Return a matrix that lies row by row, in fp32 or as the bits of bf16."""
        part = self.parts[name]
        values: Values = self.memory[name].view(np.float32 if part.form == ROWS_FP32 else np.uint16)
        return values.reshape(part.shape)


class Packer:
    """Makes the bytes of one part after the other from checked tensors."""

    def __init__(self, weights: Mapping[str, StoredTensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Take tensors, whose names were checked, and the shapes that they have to have."""
        self._weights = weights
        self._shapes = shapes

    def bytes_of(self, part: Part) -> Bytes:
        """Return a part as the core reads it, [num_bytes]; raise ModelError for tensors misshapen or not finite."""
        stored = [self._read(name) for name in part.tensors]
        if part.form == VECTOR:
            return _as_bytes(np.concatenate([tensor.floats() for tensor in stored]))
        if part.form == ROWS_FP32:
            return _as_bytes(stored[0].floats())
        if part.form == ROWS_BF16:
            return _as_bytes(_bits_of(part.tensors[0], stored[0]))
        try:
            return pack(part.form, [_source(tensor) for tensor in stored]).data
        except ProtocolError as error:
            raise ModelError(
                f"{' + '.join(part.tensors)} in {_NAMES[part.form]}: {error.problem}",
                remedy="Restore the weight files from their source, or choose a wider dtype.",
            ) from error

    def _read(self, name: str) -> StoredTensor:
        stored = self._weights[name]
        check_shape(name, stored.shape, self._shapes[name])
        return stored


_NAMES = {kind: name for name, kind in KINDS.items()}


def _bits_of(name: str, stored: StoredTensor) -> Values:
    """Return values as the bits of bf16."""
    bits = stored.values if stored.is_bf16 else narrow(stored.floats())
    if StoredTensor(values=bits, is_bf16=True).find_not_finite() is not None:
        raise not_finite(name, "bf16")
    return bits


def _source(stored: StoredTensor) -> Values:
    """Return values in a format that can be packed: fp32, fp16 or the bits of bf16."""
    is_known = stored.is_bf16 or stored.values.dtype in (np.float32, np.float16)
    return stored.values if is_known else stored.floats()


def _as_bytes(values: Values) -> Bytes:
    plain: Bytes = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return plain
