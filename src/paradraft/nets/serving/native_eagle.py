"""EAGLE-3 and P-EAGLE on the native core.

Writing what rows have learned is one call; a round is one call of P-EAGLE, and one for each level of EAGLE-3.
Legend: R rows, n entries, K drafts, d hidden size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.native.records import NOTHING, PassInput
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_eagle_round import NativeEagleRound
from paradraft.nets.serving.native_network import NativeNetwork
from paradraft.nets.serving.native_weights import NativeNetWeights, rows_of
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals
from paradraft.nets.serving.steps import follow_best


class NativeEagleNetwork(NativeNetwork):
    """What the two methods share of drafters.neural.ports.Network, on the threads of the target they draft for."""

    def append(self, feed: ContextFeed) -> None:
        """Write the keys and values of new entries, each of which sees its row's earlier ones."""
        count = len(feed.positions)
        firsts = np.repeat(feed.starts[:-1], np.diff(feed.starts))
        entries = PassInput(
            row_starts=ints(feed.starts),
            positions=ints(feed.positions),
            slots=ints(feed.slots),
            parents=ints(np.arange(count) - firsts - 1),
            context_starts=ints(feed.context_starts),
            context_slots=ints(feed.context_slots),
            scored=NOTHING,
            sides=rows_of(self.weights.embedding, feed.tokens),
            tapped=ints(np.arange(count)),
            taps=np.ascontiguousarray(feed.taps, dtype=np.float32),
        )
        self.opened().run(entries)


class NativeMaskedNetwork(NativeEagleNetwork):
    """P-EAGLE: implements drafters.neural.ports.Network."""

    def __init__(self, config: NetConfig, weights: NativeNetWeights, target: NativeRunner, *, dtype: str) -> None:
        """See NativeNetwork; raise ProtocolError for weights without a state of masked slots."""
        super().__init__(config, weights, target, shift=1, dtype=dtype)
        if weights.masked_state is None:
            raise ProtocolError("This network has no masked slots.", remedy="Use a P-EAGLE network.")
        self._masked_state = weights.masked_state

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what comes next: block_size drafts in one pass, whatever depth is asked for."""
        size, rows = self.block_size, len(feed.anchors)
        given = replace(
            self.block_pass(feed, size),
            sides=self.masked_blocks(feed, size),
            states=np.tile(self._masked_state, (rows * size, 1)),
            tapped=ints(np.arange(rows) * size),
            taps=np.ascontiguousarray(feed.taps, dtype=np.float32),
        )
        return self.marginals(given, rows)


class NativeChainNetwork(NativeEagleNetwork):
    """EAGLE-3: implements drafters.neural.ports.Network and nets.serving.steps.StepNetwork."""

    NUM_SPARE = 4096  # slots that rounds share for nodes of trees; those of chains fit in the rows' scratch slots

    def __init__(self, config: NetConfig, weights: NativeNetWeights, target: NativeRunner, *, dtype: str) -> None:
        """See NativeNetwork."""
        super().__init__(config, weights, target, shift=1, dtype=dtype, num_spare=self.NUM_SPARE)

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what comes next along the best candidates, one pass each."""
        return follow_best(self.open_round(feed), len(feed.anchors), min(feed.depth, self.block_size))

    def open_round(self, feed: DraftFeed) -> NativeEagleRound:
        """Feed the anchors of a round that goes on step by step."""
        return NativeEagleRound(self, feed)
