"""What travels between a network that drafts step by step (EAGLE-3) and its drafter: numbers only, no tensors.

A round begins with one node per row, its anchor. Every step adds nodes: drafted tokens below nodes that exist. Nodes
are numbered from 0 in the order in which they came. Legend: R rows, n nodes of a step, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.nets.serving.rounds import DraftFeed, Marginals


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Level:
    """What comes next below each node of a step; of each law only the best candidates are named, best first."""

    ids: IntArray  # [n, C] target ids
    logits: FloatArray  # [n, C] falling, not divided by the temperature
    log_total: FloatArray  # [n] log of the sum over the draft vocabulary of exp(logit / temperature)


class SteppedRound(Protocol):
    """One round. It must not be used any more when the network's next round or append begins."""

    anchors: Level  # [R] below the rows' anchors, nodes 0 .. R - 1

    def extend(self, parents: IntArray, tokens: IntArray) -> Level:
        """Add a drafted token [n] below each of these nodes [n], in one pass; return what comes next below them."""
        ...


@runtime_checkable
class StepNetwork(Protocol):
    """A network that can be asked along any path, at the price of a pass for each level."""

    def open_round(self, feed: DraftFeed) -> SteppedRound:
        """Feed the anchors."""
        ...


def follow_best(opened: SteppedRound, num_rows: int, depth: int) -> Marginals:
    """Return what comes next along the best candidates of each row, `depth` drafts far and one at least."""
    levels = [opened.anchors]
    for slot in range(1, depth):
        parents = np.arange(num_rows, dtype=np.int32) + num_rows * (slot - 1)
        levels.append(opened.extend(ints(parents), levels[-1].ids[:, 0]))
    return Marginals(
        ids=np.stack([level.ids for level in levels], axis=1),
        logits=np.stack([level.logits for level in levels], axis=1),
        log_total=np.stack([level.log_total for level in levels], axis=1),
    )
