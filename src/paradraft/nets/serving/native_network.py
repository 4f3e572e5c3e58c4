"""What all networks on the native core share: what they say of themselves, their cache, and rounds of one pass.

Legend: R rows, B inputs of a row's block, K drafts, C candidates, d hidden size.
"""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.native.executor import Executor
from paradraft.native.records import PassInput, PassOutput, Summary, SummaryTerms
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_weights import NativeNetWeights, rows_of
from paradraft.nets.serving.rounds import DraftFeed, Marginals


class NativeNetwork:
    """The part of drafters.neural.ports.Network that does not depend on the method."""

    def __init__(
        self,
        config: NetConfig,
        weights: NativeNetWeights,
        target: NativeRunner,
        *,
        shift: int,
        dtype: str,
        num_spare: int = 0,
    ) -> None:
        """Set aside as large a cache as the target's, and num_spare slots behind it; dtype is that of the weights.

        The network runs on the target's threads. Raises ModelError if memory is short, ProtocolError if the target is
        closed.
        """
        self.name = config.method
        self.tap_layers = config.tap_layers
        self.tap_size = config.num_taps * config.hidden_size
        self.block_size = config.block_size
        self.shift = shift
        self.max_positions = config.max_positions
        self.config, self.weights = config, weights
        num_slots = target.limits.num_pages * target.limits.page_size
        self.spare = range(num_slots, num_slots + num_spare)
        executor = target.open_beside(weights.model, num_slots=num_slots + num_spare, dtype=dtype)
        self._executor: Executor | None = executor
        self.extra_bytes = weights.model.packed_bytes + weights.heads.num_bytes + executor.cache_bytes

    def opened(self) -> Executor:
        """Return what runs the network; raise ProtocolError if it is closed."""
        if self._executor is None:
            raise ProtocolError("The drafting network is closed.", remedy="Build another one.")
        return self._executor

    def close(self) -> None:
        """Free cache and weights."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None

    def masked_blocks(self, feed: DraftFeed, size: int) -> FloatArray:
        """Return the embeddings of the anchors with masks behind them, [R * size, d]."""
        lines = np.empty((len(feed.anchors), size, self.config.hidden_size), dtype=np.float32)
        lines[:, 0] = rows_of(self.weights.embedding, feed.anchors)
        lines[:, 1:] = self.weights.mask
        return lines.reshape(-1, self.config.hidden_size)

    def block_pass(self, feed: DraftFeed, size: int) -> PassInput:
        """Return the pass of a block of `size` inputs per row, the last block_size of which draft; none has a state."""
        rows = len(feed.anchors)
        places = np.arange(rows * size, dtype=np.int32).reshape(rows, size)
        steps = np.arange(size)
        return PassInput(
            row_starts=ints(np.arange(rows + 1) * size),
            positions=ints((feed.positions[:, None] + steps).reshape(-1)),
            slots=ints(feed.scratch_slots[(feed.scratch_starts[:-1, None] + steps).reshape(-1)]),
            parents=ints(np.tile(steps - 1, rows)),
            context_starts=ints(feed.context_starts),
            context_slots=ints(feed.context_slots),
            scored=ints(places[:, size - self.block_size :].reshape(-1)),
            wants_normed=True,
            summary=self.terms(feed, np.repeat(feed.temperatures, self.block_size)),
        )

    def terms(self, feed: DraftFeed, temperatures: FloatArray) -> SummaryTerms:
        """Return what is to be said of logits that belong to these temperatures."""
        return SummaryTerms(
            num_candidates=min(feed.num_candidates, self.config.draft_vocab_size),
            temperatures=np.ascontiguousarray(temperatures, dtype=np.float32),
        )

    def marginals(self, given: PassInput, num_rows: int) -> Marginals:
        """Run a round of one pass."""
        output = self.opened().run(given)
        shape = (num_rows, self.block_size)
        summary, normed = summary_of(output), output.normed
        if normed is None:
            raise _left_out()
        candidates = summary.candidates.reshape(*shape, -1)
        correction, confidence = self.weights.heads.round(candidates, normed.reshape(*shape, -1))
        return Marginals(
            ids=self.weights.ids[candidates],
            logits=summary.logits.reshape(candidates.shape),
            log_total=summary.log_totals.reshape(shape),
            correction=correction,
            confidence=confidence,
        )


def summary_of(output: PassOutput) -> Summary:
    """Return what a pass that was asked for it says of its logits."""
    if output.summary is None:
        raise _left_out()
    return output.summary


def _left_out() -> ProtocolError:
    return ProtocolError("The native core left out what was asked for.", remedy="Report this with the call.")
