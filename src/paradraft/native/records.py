"""What the native decode core is given and gives back.

Legend: R rows, T fed tokens (rows one after the other), S scored tokens, C hidden size, H query heads, N key heads,
D head size, F feed-forward size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.native.packing import SOURCE_KINDS, PackedMatrix, Source
from paradraft.native.structs import LayerStruct, ModelStruct, PassStruct

_NO_LAYERS: IntArray = ints([])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LayerWeights:
    """One decoder layer."""

    query_key_value: PackedMatrix  # [(H + 2 N) D, C]
    output: PackedMatrix  # [C, H D]
    gate: PackedMatrix  # [F, C]
    up: PackedMatrix  # [F, C]
    down: PackedMatrix  # [C, F]
    input_norm: FloatArray  # [C]
    inner_norm: FloatArray  # [C]
    query_norm: FloatArray | None = None  # [D]; with key_norm or not at all
    key_norm: FloatArray | None = None  # [D]
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
            window=self.window or 0,
            has_rope=int(self.has_rope),
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

    @property
    def vocab_size(self) -> int:
        """Return V."""
        return self.head.outputs

    @property
    def hidden_size(self) -> int:
        """Return C."""
        return self.head.inputs

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
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassInput:
    """The tokens of one pass and what each sees: its row's context, its ancestors and itself. All int32."""

    row_starts: IntArray  # [R+1] into the fed tokens; rows may be empty
    tokens: IntArray  # [T]
    positions: IntArray  # [T]
    slots: IntArray  # [T] where keys and values are written
    parents: IntArray  # [T] index of the token before within the row's fed tokens; -1: the row's context
    context_starts: IntArray  # [R+1] into context_slots
    context_slots: IntArray  # slots of each row's tokens before the pass, in logical order
    scored: IntArray  # [S] indices into the fed tokens
    hidden_layers: IntArray = field(default_factory=lambda: _NO_LAYERS)  # taps: -1 embedding, i the output of layer i
    entropy_layers: IntArray = field(default_factory=lambda: _NO_LAYERS)

    def struct(self) -> PassStruct:
        """Return what the library reads; it points into these arrays. Raises ProtocolError for parts that misfit."""
        counts = {len(part) for part in (self.tokens, self.positions, self.slots, self.parents)}
        if len(counts) != 1 or len(self.row_starts) != len(self.context_starts) or not len(self.row_starts):
            raise ProtocolError(
                f"A pass of {len(self.row_starts) - 1} rows has parts of different lengths: {sorted(counts)} tokens, "
                f"{len(self.context_starts) - 1} contexts.",
                remedy="Give one position, slot and parent per token, and one context per row.",
            )
        if self.context_starts[-1] != len(self.context_slots):
            raise ProtocolError(
                f"{len(self.context_slots)} context slots were given, and starts for {self.context_starts[-1]}.",
                remedy="Make the last of context_starts the number of context_slots.",
            )
        return PassStruct(
            num_rows=len(self.row_starts) - 1,
            num_tokens=len(self.tokens),
            num_scored=len(self.scored),
            num_hidden_layers=len(self.hidden_layers),
            num_entropy_layers=len(self.entropy_layers),
            **{name: int_address(getattr(self, name)) for name in self.__slots__},
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassOutput:
    """What a pass leaves behind. The arrays are valid until the executor's next run."""

    logits: FloatArray  # [S, V]
    best: IntArray  # [S] ids of the largest logits, the lowest on ties; not-a-number counts as the largest
    hidden: Mapping[int, FloatArray]  # by layer, [T, C]
    entropies: Mapping[int, FloatArray]  # by layer, [T, H], nats


def float_address(array: FloatArray, size: int) -> int:
    """Return where a vector lies; ProtocolError unless it is contiguous float32 [size]."""
    if array.dtype != np.float32 or array.shape != (size,) or not array.flags.c_contiguous:
        raise ProtocolError(
            f"A vector of shape {list(array.shape)} in {array.dtype.name} stands where {size} float32 values belong.",
            remedy="Give contiguous float32 vectors of the model's sizes.",
        )
    return address(array)


def int_address(array: IntArray) -> int:
    """Return where numbers lie; ProtocolError unless they are a contiguous int32 vector."""
    if array.dtype != np.int32 or array.ndim != 1 or not array.flags.c_contiguous:
        raise ProtocolError(
            f"An array of shape {list(array.shape)} in {array.dtype.name} stands where int32 numbers belong.",
            remedy="Give contiguous one-dimensional int32 arrays.",
        )
    return address(array)


def address(array: FloatArray | IntArray) -> int:
    """Return where an array lies; between two passes this takes half the time of array.ctypes."""
    place: int = array.__array_interface__["data"][0]
    return place
