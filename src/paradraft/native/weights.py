"""A model laid out for the native decode core.

Legend: C hidden size, H query heads, N key heads, D head size, F feed-forward size, V vocabulary, W width of an entry's
taps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ProtocolError
from paradraft.native.addresses import float_address
from paradraft.native.packing import SOURCE_KINDS, PackedMatrix, Source
from paradraft.native.structs import LayerStruct, MatrixStruct, ModelStruct


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LayerWeights:
    """One decoder layer."""

    query_key_value: PackedMatrix  # [(H + 2 N) D, C]; with a side_norm [(H + 2 N) D, 2 C]
    output: PackedMatrix  # [C, H D]
    gate: PackedMatrix  # [F, C]
    up: PackedMatrix  # [F, C]
    down: PackedMatrix  # [C, F]
    input_norm: FloatArray  # [C]
    inner_norm: FloatArray  # [C]
    query_norm: FloatArray | None = None  # [D]; with key_norm or not at all
    key_norm: FloatArray | None = None  # [D]
    side_norm: FloatArray | None = None  # [C]; given, attention reads a token's side before its state
    goes_on_normed: bool = False  # what attention gives is added to the normed state
    window: int | None = None  # positions a token sees back, itself included; None: all
    has_rope: bool = True

    def struct(self, hidden_size: int, head_dim: int) -> LayerStruct:
        """Return what the library reads; it points into this layer. Raises ProtocolError for misshapen norms."""
        return LayerStruct(
            query_key_value=self.query_key_value.struct(),
            output=self.output.struct(),
            gate=self.gate.struct(),
            up=self.up.struct(),
            down=self.down.struct(),
            input_norm=float_address(self.input_norm, hidden_size),
            inner_norm=float_address(self.inner_norm, hidden_size),
            query_norm=None if self.query_norm is None else float_address(self.query_norm, head_dim),
            key_norm=None if self.key_norm is None else float_address(self.key_norm, head_dim),
            side_norm=None if self.side_norm is None else float_address(self.side_norm, hidden_size),
            window=self.window or 0,
            has_rope=int(self.has_rope),
            goes_on_normed=int(self.goes_on_normed),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ModelWeights:
    """A whole decoder. Executors read it in place and may share it."""

    num_heads: int
    num_key_heads: int
    head_dim: int
    norm_eps: float
    inverse_frequencies: FloatArray  # [D/2]
    layers: tuple[LayerWeights, ...]
    final_norm: FloatArray  # [C]
    head: PackedMatrix  # [V, C]
    embedding: Source | None = None  # [V, C] float32, float16 or uint16 (bits of bfloat16); None: the head's rows
    rope_factor: float = 1.0  # multiplies cosines and sines
    taps: PackedMatrix | None = None  # [C, W] makes a line of taps, of a context entry or what enters the first layer
    taps_norm: FloatArray | None = None  # [C] of that line

    @property
    def vocab_size(self) -> int:
        """Return V."""
        return self.head.outputs

    @property
    def hidden_size(self) -> int:
        """Return C."""
        return self.head.inputs

    @property
    def packed_bytes(self) -> int:
        """Return the bytes of all packed matrices."""
        return sum(matrix.data.nbytes for matrix in self._matrices())

    def _matrices(self) -> Iterator[PackedMatrix]:
        yield self.head
        if self.taps is not None:
            yield self.taps
        for layer in self.layers:
            yield from (layer.query_key_value, layer.output, layer.gate, layer.up, layer.down)

    def struct(self) -> ModelStruct:
        """Return what the library reads; it points into this model. Raises ProtocolError for parts that misfit."""
        embedding, layers = self.embedding, self.layers
        if embedding is not None and (
            embedding.shape != (self.vocab_size, self.hidden_size) or not embedding.flags.c_contiguous
        ):
            raise ProtocolError(
                f"The embedding has the shape {list(embedding.shape)}, or its rows do not lie one after the other.",
                remedy=f"Give a contiguous array of shape [{self.vocab_size}, {self.hidden_size}].",
            )
        structs = [layer.struct(self.hidden_size, self.head_dim) for layer in layers]
        return ModelStruct(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=layers[0].gate.outputs if layers else 0,
            num_layers=len(layers),
            num_heads=self.num_heads,
            num_key_heads=self.num_key_heads,
            head_dim=self.head_dim,
            norm_eps=self.norm_eps,
            rope_factor=self.rope_factor,
            inverse_frequencies=float_address(self.inverse_frequencies, self.head_dim // 2),
            layers=(LayerStruct * len(layers))(*structs),
            final_norm=float_address(self.final_norm, self.hidden_size),
            head=self.head.struct(),
            embedding=None if embedding is None else embedding.ctypes.data,
            embedding_kind=0 if embedding is None else SOURCE_KINDS[embedding.dtype.name],
            taps=MatrixStruct() if self.taps is None else self.taps.struct(),
            taps_norm=None if self.taps_norm is None else float_address(self.taps_norm, self.hidden_size),
        )
