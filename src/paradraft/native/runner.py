"""The native runner: the decode core of the house behind the target's port. Needs a processor, and no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ConfigError, ProtocolError
from paradraft.core.pass_check import check_pass, check_taps
from paradraft.core.passed import DoneTicket
from paradraft.core.ports import Limits, Needs
from paradraft.core.records import Batch, Proposal
from paradraft.native.chooser import NativeChooser
from paradraft.native.executor import Executor
from paradraft.native.pass_layout import Taps, lay_out
from paradraft.native.scores import ArrayScores
from paradraft.native.weights import ModelWeights

NO_NEEDS = Needs(sources=())
# What each number format means for the cache.
CACHE_KINDS: Mapping[str, str] = MappingProxyType(
    {"fp32": "float32", "bf16": "bfloat16", "int8": "bfloat16", "int4": "bfloat16"}
)
_CACHE_BYTES: Mapping[str, int] = MappingProxyType({"float32": 4, "bfloat16": 2})


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeOptions:
    """How a model is to be run."""

    name: str
    dtype: str  # one of CACHE_KINDS: of the cache; weights are packed already
    max_positions: int
    num_pages: int
    page_size: int
    num_threads: int
    needs: Needs = NO_NEEDS  # which hidden states and entropies every pass records


class NativeRunner:
    """Implements core.ports.Target over packed weights. It owns the cache; pages are given out elsewhere."""

    def __init__(self, weights: ModelWeights, options: NativeOptions, *, shares: Executor | None = None) -> None:
        """Set aside the cache and start the threads, or use those of an executor that shares them.

        Raises what Executor raises, ProtocolError for absent layers.
        """
        needs = options.needs
        check_taps(needs, len(weights.layers))
        self._weights = weights
        self._options = options
        self._taps = Taps(hidden_layers=_layers(needs.hidden_layers), entropy_layers=_layers(needs.entropy_layers))
        executor = Executor(
            weights,
            num_slots=options.num_pages * options.page_size,
            num_threads=options.num_threads,
            shares=shares,
            cache_kind=CACHE_KINDS[options.dtype],
        )
        self._executor: Executor | None = executor
        self._chooser = NativeChooser()
        self.limits = _limits(weights, options, executor.instruction_set)

    def first_layers(self, count: int, *, num_pages: int, page_size: int) -> NativeRunner:
        """Return a runner with a cache of its own that stops behind `count` layers and shares this one's weights.

        Raises ConfigError unless count leaves some layers out.
        """
        if self._executor is None or not 1 <= count < self.limits.num_layers:
            raise ConfigError(
                f"{self.limits.name} cannot draft with {count} of its {self.limits.num_layers} layers.",
                remedy=f"Set draft_layers to a whole number from 1 to {self.limits.num_layers - 1}.",
            )
        shortened = replace(self._weights, layers=self._weights.layers[:count])
        options = replace(self._options, num_pages=num_pages, page_size=page_size, needs=NO_NEEDS)
        runner = NativeRunner(shortened, options, shares=self._executor)
        runner.limits = replace(runner.limits, weight_bytes=0)
        return runner

    def open_beside(self, weights: ModelWeights, *, num_slots: int, dtype: str) -> Executor:
        """Return an executor of another model on this one's threads: two teams would take the cores from each other.

        dtype: one of CACHE_KINDS, of its cache. Raises what Executor raises.
        """
        return Executor(weights, num_slots=num_slots, shares=self._open(), cache_kind=CACHE_KINDS[dtype])

    def submit(self, batch: Batch, proposal: Proposal) -> DoneTicket[ArrayScores]:
        """Run a pass; see core.ports.Target. Raises ProtocolError for ids, places or rows that cannot be right."""
        executor = self._open()
        check_pass(batch, proposal, self.limits)
        given, starts = lay_out(batch, proposal, self._taps)
        output = executor.run(given)
        scores = ArrayScores(
            starts=starts,
            fed_starts=given.row_starts,
            logits=output.logits,
            best=output.best,
            largest=self._chooser.largest,
            hidden=output.hidden,
            entropies=output.entropies,
        )
        return DoneTicket(scores=scores)

    def last_hidden(self, batch: Batch) -> FloatArray:
        """Run a pass and return the final norm's output at its tokens; see core.embedding.EmbeddingTarget."""
        executor, nothing = self._open(), Proposal.empty(batch.num_rows)
        check_pass(batch, nothing, self.limits)
        last = len(self._weights.layers) - 1
        given, _ = lay_out(batch, nothing, Taps(hidden_layers=ints([last]), entropy_layers=ints([])))
        states = executor.run(given).hidden[last]
        mean_square = np.square(states, dtype=np.float64).mean(axis=-1, keepdims=True)
        scale = np.sqrt(mean_square + self._weights.norm_eps).astype(np.float32)
        normed: FloatArray = states / scale * self._weights.final_norm
        return normed

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy cache slots; all are read before any is written."""
        if len(sources):
            self._open().move(ints(sources), ints(destinations))

    def close(self) -> None:
        """Free cache and threads; weights go when no runner shares them."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None

    def _open(self) -> Executor:
        if self._executor is None:
            raise ProtocolError("The target is closed.", remedy="Build another one.")
        return self._executor


def _layers(numbers: tuple[int, ...]) -> IntArray:
    return ints(list(dict.fromkeys(numbers)))


def _limits(weights: ModelWeights, options: NativeOptions, instruction_set: str) -> Limits:
    cache_bytes = 2 * weights.num_key_heads * weights.head_dim * _CACHE_BYTES[CACHE_KINDS[options.dtype]]
    return Limits(
        name=options.name,
        runner=f"the native core ({instruction_set}, {_counted(options.num_threads)})",
        dtype=options.dtype,
        vocab_size=weights.vocab_size,
        num_layers=len(weights.layers),
        hidden_size=weights.hidden_size,
        max_positions=options.max_positions,
        num_pages=options.num_pages,
        page_size=options.page_size,
        bytes_per_token=cache_bytes * len(weights.layers),
        weight_bytes=weights.packed_bytes + _embedding_bytes(weights),
    )


def _embedding_bytes(weights: ModelWeights) -> int:
    return 0 if weights.embedding is None else weights.embedding.nbytes


def _counted(num_threads: int) -> str:
    return f"{num_threads} thread{'' if num_threads == 1 else 's'}"
