"""One row of a draft model: its text, its pages, and what the last drafts left in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.core.errors import CapacityError
from paradraft.kv.lease import Lease
from paradraft.kv.records import Moves


class TextView(Protocol):
    """A row's tokens in the drafter's ids."""

    num_stable: int  # so many of `ids` will stay as they are

    @property
    def ids(self) -> IntArray:
        """Return all of them."""
        ...

    def follow(self, history: IntArray) -> None:
        """Read on in the target's ids."""
        ...


class SameText:
    """The text of a drafter that shares the target's vocabulary: the history itself."""

    def __init__(self) -> None:
        self.ids = ints([])
        self.num_stable = 0

    def follow(self, history: IntArray) -> None:
        """Look at the history."""
        self.ids = history
        self.num_stable = len(history)


@dataclass(slots=True)
class ModelRow:
    """A text and the cache slots of its beginning; behind them, between steps, those of the last drafts.

    Drafts are settled by the text itself: whatever they wrote that has become text since stays in the cache. So a
    step that was skipped, cut short or never observed costs nothing but the drafts.
    """

    text: TextView
    lease: Lease
    written: list[int] = field(default_factory=list)  # tokens in the first staged slots, in order of the text
    nodes: list[int] = field(default_factory=list)  # tokens in the slots behind them: a tree
    parents: list[int] = field(default_factory=list)  # of these nodes; -1: the last written token

    @property
    def backlog(self) -> int:
        """Return how many tokens of the text are not cached."""
        return len(self.text.ids) - self.lease.committed

    def settle(self) -> Moves:
        """Keep the written slots that have become text and drop the others; return the moves to be done."""
        ids, base = self.text.ids, self.lease.committed
        # The last token is always fed again: its logits start the next draft.
        room = min(self.text.num_stable, len(ids) - 1) - base
        truth: list[int] = ids[base : base + max(room, 0)].tolist()
        kept = _num_alike(self.written, truth)
        path = self._path(truth[kept:]) if kept == len(self.written) else []
        moves = self.lease.commit(kept, ints(path), ids)
        self.written, self.nodes, self.parents = [], [], []
        return moves

    def stage(self, count: int) -> bool:
        """Set slots aside for the next count tokens, text and drafts; False if there are not enough pages."""
        try:
            self.lease.reserve(self.lease.committed + count)
        except CapacityError:
            return False
        self.lease.stage(count)
        return True

    def _path(self, truth: list[int]) -> list[int]:
        path: list[int] = []
        node = -1
        for token in truth:
            children = zip(self.nodes, self.parents, strict=True)
            found = next((at for at, child in enumerate(children) if child == (token, node)), None)
            if found is None:
                break
            path.append(found)
            node = found
        return path


def _num_alike(left: list[int], right: list[int]) -> int:
    for count, (ours, theirs) in enumerate(zip(left, right, strict=False)):
        if ours != theirs:
            return count
    return min(len(left), len(right))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Feed:
    """What one row feeds in one pass of the draft model."""

    row: ModelRow
    index: int  # of the row in the batch
    pending: IntArray
    context_len: int
    num_scored: int
    drafted: tuple[int, ...] = ()  # tokens between the text and the pending one
    nodes: IntArray = field(default_factory=lambda: ints([]))
    parents: IntArray = field(default_factory=lambda: ints([]))
    depths: IntArray = field(default_factory=lambda: ints([]))

    @property
    def history(self) -> IntArray:
        """Return the tokens the pass may take for known."""
        ids = self.row.text.ids
        return np.concatenate([ids, ints(self.drafted)]) if self.drafted else ids
