"""Runs whole passes of a decoder in the native decode core: numpy in, numpy out."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.native.addresses import address, int_address
from paradraft.native.library import INSTRUCTION_SETS, check, load_library
from paradraft.native.records import ContextEntries, PassInput, PassOutput, Summary
from paradraft.native.structs import ErrorStruct, OptionsStruct, ResultsStruct
from paradraft.native.weights import ModelWeights

CACHE_KINDS: Mapping[str, int] = {"float32": 1, "bfloat16": 2}


class Executor:
    """A model, its cache of keys and values, and threads. One call at a time; the GIL is free meanwhile."""

    def __init__(
        self,
        weights: ModelWeights,
        *,
        num_slots: int,
        num_threads: int = 1,
        shares: Executor | None = None,
        cache_kind: str = "bfloat16",
        instruction_set: str | None = None,
    ) -> None:
        """Set aside the cache of num_slots tokens and start num_threads - 1 threads.

        shares: an executor whose threads are used instead, and live as long as any executor does that uses them.
        cache_kind is one of CACHE_KINDS. instruction_set is one that library.py finds; None: the environment's
        PARADRAFT_INSTRUCTION_SET, else the fastest. Raises ModelError if the library is absent or memory is short,
        ProtocolError for sizes that do not fit together, ConfigError for an instruction set that cannot run here.
        """
        library = load_library()
        self._functions = library.functions
        self._weights = weights  # the engine reads their memory
        self._logits = np.empty((0, weights.vocab_size), dtype=np.float32)
        model = weights.struct()
        options = OptionsStruct(
            num_slots=num_slots,
            cache_kind=CACHE_KINDS[cache_kind],
            num_threads=num_threads,
            instruction_set=library.instruction_set(instruction_set),
            shares=None if shares is None else shares.opened_engine(),
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
        engine = self.opened_engine()
        struct = given.struct(self._weights.hidden_size, self._taps_width)
        shape = (struct.num_tokens, self._weights.hidden_size)
        hidden = np.empty((len(given.hidden_layers), *shape), dtype=np.float32)
        entropy = np.empty((len(given.entropy_layers), shape[0], self._weights.num_heads), dtype=np.float32)
        logits = self._logits_of(len(given.scored))
        normed = np.empty((len(given.scored), shape[1]), dtype=np.float32) if given.wants_normed else None
        summary = _summary_of(given)
        results = ResultsStruct(
            logits=address(logits),
            hidden=address(hidden),
            entropy=address(entropy),
            normed=None if normed is None else address(normed),
            candidates=None if summary is None else address(summary.candidates),
            candidate_logits=None if summary is None else address(summary.logits),
            log_totals=None if summary is None else address(summary.log_totals),
        )
        error = ErrorStruct()
        arguments = (ctypes.byref(part) for part in (struct, results, error))
        check(self._functions.paradraft_engine_run(engine, *arguments), error)
        best = np.empty(len(logits), dtype=np.int32)
        check(self._functions.paradraft_engine_best(engine, len(best), address(best), ctypes.byref(error)), error)
        return PassOutput(
            logits=logits,
            best=best,
            hidden=dict(zip(given.hidden_layers.tolist(), hidden, strict=True)),
            entropies=dict(zip(given.entropy_layers.tolist(), entropy, strict=True)),
            normed=normed,
            summary=summary,
        )

    def append(self, entries: ContextEntries) -> None:
        """Write keys and values of context entries.

        Raises ProtocolError, before anything is written, for slots or positions that cannot be, and for a model
        without taps.
        """
        engine, struct, error = self.opened_engine(), entries.struct(self._taps_width), ErrorStruct()
        check(self._functions.paradraft_engine_append(engine, ctypes.byref(struct), ctypes.byref(error)), error)

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy slots in every layer; all sources [n] are read before any destination [n] is written."""
        if len(sources) != len(destinations):
            raise ProtocolError(
                f"{len(sources)} slots cannot move to {len(destinations)}.", remedy="Name one destination per source."
            )
        error = ErrorStruct()
        addresses = (int_address(sources), int_address(destinations))
        engine = self.opened_engine()
        check(self._functions.paradraft_engine_move(engine, *addresses, len(sources), ctypes.byref(error)), error)

    def close(self) -> None:
        """Stop the threads and free the cache; again is harmless."""
        if self._engine is not None:
            self._functions.paradraft_engine_destroy(self._engine)
            self._engine = None

    def opened_engine(self) -> ctypes.c_void_p:
        """Return what the library calls an engine; raise ProtocolError if the executor is closed."""
        if self._engine is None:
            raise ProtocolError("The executor is closed.", remedy="Build another one.")
        return self._engine

    @property
    def _taps_width(self) -> int:
        return 0 if self._weights.taps is None else self._weights.taps.inputs

    def _logits_of(self, count: int) -> FloatArray:
        """Return memory for this many lines; kept between passes, because fresh pages cost more than some layers."""
        if len(self._logits) < count:
            self._logits = np.empty((count, self._weights.vocab_size), dtype=np.float32)
        logits: FloatArray = self._logits[:count]
        return logits


def _summary_of(given: PassInput) -> Summary | None:
    """Return memory for what a pass is to say of its logits, if anything."""
    if given.summary is None:
        return None
    shape = (len(given.scored), max(given.summary.num_candidates, 0))
    return Summary(
        candidates=np.empty(shape, dtype=np.int32),
        logits=np.empty(shape, dtype=np.float32),
        log_totals=np.empty(shape[0], dtype=np.float32),
    )
