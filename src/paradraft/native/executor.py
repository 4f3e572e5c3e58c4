"""Runs whole passes of a decoder in the native decode core: numpy in, numpy out.

Legend: R rows, T fed tokens (rows one after the other), S scored tokens, C hidden size, H query heads, N key heads,
D head size, F feed-forward size, V vocabulary.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.native.library import INSTRUCTION_SETS, check, load_library
from paradraft.native.packing import PackedMatrix, Source
from paradraft.native.structs import (
    ErrorStruct,
    LayerStruct,
    ModelStruct,
    OptionsStruct,
    PassStruct,
    ResultsStruct,
)

CACHE_KINDS: Mapping[str, int] = {"float32": 1, "bfloat16": 2}
_EMBEDDING_KINDS: Mapping[str, int] = {"float32": 1, "uint16": 2, "float16": 3}
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassOutput:
    """What a pass leaves behind. The arrays are valid until the executor's next run."""

    logits: FloatArray  # [S, V]
    hidden: Mapping[int, FloatArray]  # by layer, [T, C]
    entropies: Mapping[int, FloatArray]  # by layer, [T, H], nats


class Executor:
    """A model, its cache of keys and values, and threads of its own. One call at a time; the GIL is free meanwhile."""

    def __init__(
        self,
        weights: ModelWeights,
        *,
        num_slots: int,
        num_threads: int,
        cache_kind: str = "bfloat16",
        instruction_set: str | None = None,
    ) -> None:
        """Set aside the cache of num_slots tokens and start num_threads - 1 threads.

        cache_kind is one of CACHE_KINDS. instruction_set is one that library.py finds; None: the environment's
        PARADRAFT_INSTRUCTION_SET, else the fastest. Raises ModelError if the library is absent or memory is short,
        ProtocolError for sizes that do not fit together, ConfigError for an instruction set that cannot run here.
        """
        library = load_library()
        self._functions = library.functions
        self._weights = weights  # the engine reads their memory
        self._logits = np.empty((0, weights.vocab_size), dtype=np.float32)
        model = _model_struct(weights)
        options = OptionsStruct(
            num_slots=num_slots,
            cache_kind=CACHE_KINDS[cache_kind],
            num_threads=num_threads,
            instruction_set=library.instruction_set(instruction_set),
        )
        engine, error = ctypes.c_void_p(), ErrorStruct()
        arguments = (ctypes.byref(part) for part in (model, options, engine, error))
        check(self._functions.paradraft_engine_create(*arguments), error)
        self._engine: ctypes.c_void_p | None = engine
        names = {number: name for name, number in INSTRUCTION_SETS.items()}
        self.instruction_set = names[self._functions.paradraft_engine_instruction_set(engine)]
        self.cache_bytes = int(self._functions.paradraft_engine_cache_bytes(engine))

    def run(self, given: PassInput) -> PassOutput:
        """Run a pass. Raises ProtocolError, before anything is written, for ids, slots or parents that cannot be."""
        engine = self._open_engine()
        struct = _pass_struct(given)
        shape = (struct.num_tokens, self._weights.hidden_size)
        hidden = np.empty((len(given.hidden_layers), *shape), dtype=np.float32)
        entropy = np.empty((len(given.entropy_layers), shape[0], self._weights.num_heads), dtype=np.float32)
        logits = self._logits_of(len(given.scored))
        results = ResultsStruct(logits=_address(logits), hidden=_address(hidden), entropy=_address(entropy))
        error = ErrorStruct()
        arguments = (ctypes.byref(part) for part in (struct, results, error))
        check(self._functions.paradraft_engine_run(engine, *arguments), error)
        return PassOutput(
            logits=logits,
            hidden=dict(zip(given.hidden_layers.tolist(), hidden, strict=True)),
            entropies=dict(zip(given.entropy_layers.tolist(), entropy, strict=True)),
        )

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy slots in every layer; all sources [n] are read before any destination [n] is written."""
        if len(sources) != len(destinations):
            raise ProtocolError(
                f"{len(sources)} slots cannot move to {len(destinations)}.", remedy="Name one destination per source."
            )
        error = ErrorStruct()
        addresses = (_int_address(sources), _int_address(destinations))
        engine = self._open_engine()
        check(self._functions.paradraft_engine_move(engine, *addresses, len(sources), ctypes.byref(error)), error)

    def close(self) -> None:
        """Stop the threads and free the cache; again is harmless."""
        if self._engine is not None:
            self._functions.paradraft_engine_destroy(self._engine)
            self._engine = None

    def _open_engine(self) -> ctypes.c_void_p:
        if self._engine is None:
            raise ProtocolError("The executor is closed.", remedy="Build another one.")
        return self._engine

    def _logits_of(self, count: int) -> FloatArray:
        """Return memory for this many lines; kept between passes, because fresh pages cost more than some layers."""
        if len(self._logits) < count:
            self._logits = np.empty((count, self._weights.vocab_size), dtype=np.float32)
        logits: FloatArray = self._logits[:count]
        return logits


def _model_struct(weights: ModelWeights) -> ModelStruct:
    embedding = weights.embedding
    return ModelStruct(
        vocab_size=weights.vocab_size,
        hidden_size=weights.hidden_size,
        intermediate_size=weights.layers[0].gate.outputs if weights.layers else 0,
        num_layers=len(weights.layers),
        num_heads=weights.num_heads,
        num_key_heads=weights.num_key_heads,
        head_dim=weights.head_dim,
        norm_eps=weights.norm_eps,
        rope_factor=weights.rope_factor,
        inverse_frequencies=_float_address(weights.inverse_frequencies, weights.head_dim // 2),
        layers=(LayerStruct * len(weights.layers))(*(_layer_struct(layer, weights) for layer in weights.layers)),
        final_norm=_float_address(weights.final_norm, weights.hidden_size),
        head=weights.head.struct(),
        embedding=None if embedding is None else embedding.ctypes.data,
        embedding_kind=0 if embedding is None else _EMBEDDING_KINDS[embedding.dtype.name],
    )


def _layer_struct(layer: LayerWeights, weights: ModelWeights) -> LayerStruct:
    return LayerStruct(
        query_key_value=layer.query_key_value.struct(),
        output=layer.output.struct(),
        gate=layer.gate.struct(),
        up=layer.up.struct(),
        down=layer.down.struct(),
        input_norm=_float_address(layer.input_norm, weights.hidden_size),
        inner_norm=_float_address(layer.inner_norm, weights.hidden_size),
        query_norm=None if layer.query_norm is None else _float_address(layer.query_norm, weights.head_dim),
        key_norm=None if layer.key_norm is None else _float_address(layer.key_norm, weights.head_dim),
        window=layer.window or 0,
        has_rope=int(layer.has_rope),
    )


def _pass_struct(given: PassInput) -> PassStruct:
    counts = {len(part) for part in (given.tokens, given.positions, given.slots, given.parents)}
    if len(counts) != 1 or len(given.row_starts) != len(given.context_starts) or not len(given.row_starts):
        raise ProtocolError(
            f"A pass of {len(given.row_starts) - 1} rows has parts of different lengths: {sorted(counts)} tokens, "
            f"{len(given.context_starts) - 1} contexts.",
            remedy="Give one position, slot and parent per token, and one context per row.",
        )
    if given.context_starts[-1] != len(given.context_slots):
        raise ProtocolError(
            f"{len(given.context_slots)} context slots were given, and starts for {given.context_starts[-1]}.",
            remedy="Make the last of context_starts the number of context_slots.",
        )
    names = ("row_starts", "tokens", "positions", "slots", "parents", "context_starts", "context_slots", "scored")
    return PassStruct(
        num_rows=len(given.row_starts) - 1,
        num_tokens=len(given.tokens),
        num_scored=len(given.scored),
        num_hidden_layers=len(given.hidden_layers),
        hidden_layers=_int_address(given.hidden_layers),
        num_entropy_layers=len(given.entropy_layers),
        entropy_layers=_int_address(given.entropy_layers),
        **{name: _int_address(getattr(given, name)) for name in names},
    )


def _address(array: FloatArray | IntArray) -> int:
    return array.ctypes.data


def _float_address(array: FloatArray, size: int) -> int:
    if array.dtype != np.float32 or array.shape != (size,) or not array.flags.c_contiguous:
        raise ProtocolError(
            f"A vector of shape {list(array.shape)} in {array.dtype.name} stands where {size} float32 values belong.",
            remedy="Give contiguous float32 vectors of the model's sizes.",
        )
    return _address(array)


def _int_address(array: IntArray) -> int:
    if array.dtype != np.int32 or array.ndim != 1 or not array.flags.c_contiguous:
        raise ProtocolError(
            f"An array of shape {list(array.shape)} in {array.dtype.name} stands where int32 numbers belong.",
            remedy="Give contiguous one-dimensional int32 arrays.",
        )
    return _address(array)
