"""DFlash and DSpark on the native core: a round is one call, as is writing what rows have learned to their contexts.

Legend: R rows, n context entries, B inputs of a block, K drafts, C candidates, d hidden size, m tapped layers.
"""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.native.executor import Executor
from paradraft.native.records import ContextEntries, PassInput, SummaryTerms
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_weights import NativeBlockWeights, rows_of
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


class NativeBlockNetwork:
    """Implements drafters.neural.ports.Network on the threads of the target that it drafts for."""

    def __init__(self, config: NetConfig, weights: NativeBlockWeights, target: NativeRunner, *, dtype: str) -> None:
        """Set aside as large a cache as the target's; dtype is that of the weights.

        Raises ModelError if memory is short, ProtocolError if the target is closed.
        """
        self.name = config.method
        self.tap_layers = config.tap_layers
        self.tap_size = config.num_taps * config.hidden_size
        self.block_size = config.block_size
        self.shift = 0
        self.max_positions = config.max_positions
        self._config, self._weights = config, weights
        limits = target.limits
        executor = target.open_beside(weights.model, num_slots=limits.num_pages * limits.page_size, dtype=dtype)
        self._executor: Executor | None = executor
        self.extra_bytes = weights.model.packed_bytes + weights.heads.num_bytes + executor.cache_bytes

    def append(self, feed: ContextFeed) -> None:
        """Write the keys and values of new context entries: each depends on its own taps alone."""
        taps = np.ascontiguousarray(feed.taps, dtype=np.float32)
        self._open().append(ContextEntries(taps=taps, positions=ints(feed.positions), slots=ints(feed.slots)))

    def draft(self, feed: DraftFeed) -> Marginals:
        """Fill in the rows' blocks. All inputs of a block run whatever depth is asked for, as in training."""
        shape = (len(feed.anchors), self.block_size)
        output = self._open().run(self._block_pass(feed))
        if output.summary is None or output.normed is None:
            raise ProtocolError("The native core left out what was asked for.", remedy="Report this with the call.")
        candidates = output.summary.candidates.reshape(*shape, -1)
        correction, confidence = self._weights.heads.round(candidates, output.normed.reshape(*shape, -1))
        return Marginals(
            ids=self._weights.ids[candidates],
            logits=output.summary.logits.reshape(candidates.shape),
            log_total=output.summary.log_totals.reshape(shape),
            correction=correction,
            confidence=confidence,
        )

    def close(self) -> None:
        """Free cache and weights."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None

    def _open(self) -> Executor:
        if self._executor is None:
            raise ProtocolError("The drafting network is closed.", remedy="Build another one.")
        return self._executor

    def _block_pass(self, feed: DraftFeed) -> PassInput:
        rows, size = len(feed.anchors), self._config.num_inputs
        places = np.arange(rows * size, dtype=np.int32).reshape(rows, size)
        drafting: IntArray = places[:, size - self.block_size :].reshape(-1)
        first = feed.scratch_starts[:-1, None]
        return PassInput(
            row_starts=ints(np.arange(rows + 1) * size),
            positions=ints((feed.positions[:, None] + np.arange(size)).reshape(-1)),
            slots=ints(feed.scratch_slots[(first + np.arange(size)).reshape(-1)]),
            context_starts=ints(feed.context_starts),
            context_slots=ints(feed.context_slots),
            scored=drafting,
            states=self._inputs(feed.anchors, size),
            sees_both_ways=True,
            wants_normed=True,
            summary=SummaryTerms(
                num_candidates=min(feed.num_candidates, self._config.draft_vocab_size),
                temperatures=np.repeat(feed.temperatures.astype(np.float32), self.block_size),
            ),
        )

    def _inputs(self, anchors: IntArray, size: int) -> FloatArray:
        """Return the anchors' embeddings with masks behind them, [R * B, d]."""
        states = np.empty((len(anchors), size, self._config.hidden_size), dtype=np.float32)
        states[:, 0] = rows_of(self._weights.embedding, anchors)
        states[:, 1:] = self._weights.mask
        return states.reshape(-1, self._config.hidden_size)
