"""DFlash and DSpark on the native core: a round is one call, as is writing what rows have learned to their contexts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paradraft.core.arrays import ints
from paradraft.native.records import NOTHING, ContextEntries
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig
from paradraft.nets.serving.native_network import NativeNetwork
from paradraft.nets.serving.native_weights import NativeNetWeights
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


class NativeBlockNetwork(NativeNetwork):
    """Implements drafters.neural.ports.Network on the threads of the target that it drafts for."""

    def __init__(self, config: NetConfig, weights: NativeNetWeights, target: NativeRunner, *, dtype: str) -> None:
        """See NativeNetwork."""
        super().__init__(config, weights, target, shift=0, dtype=dtype)

    def append(self, feed: ContextFeed) -> None:
        """Write the keys and values of new context entries: each depends on its own taps alone."""
        taps = np.ascontiguousarray(feed.taps, dtype=np.float32)
        self.opened().append(ContextEntries(taps=taps, positions=ints(feed.positions), slots=ints(feed.slots)))

    def draft(self, feed: DraftFeed) -> Marginals:
        """Fill in the rows' blocks. All inputs of a block run whatever depth is asked for, as in training."""
        size = self.config.num_inputs
        given = replace(
            self.block_pass(feed, size), states=self.masked_blocks(feed, size), parents=NOTHING, sees_both_ways=True
        )
        return self.marginals(given, len(feed.anchors))
