"""The stub network that has to be fed what it drafted, as EAGLE-3 has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.nets.serving.rounds import DraftFeed
from paradraft.nets.serving.steps import Level
from support.stub_network import StubNetwork
from support.stub_target import Law


class SteppedStubNetwork(StubNetwork):
    """Implements nets.serving.steps.StepNetwork: below a node stands law(text, anchor and path).

    `levels` counts nodes fed.
    """

    def __init__(self, law: Law, *, shift: int = 1, block_size: int = 6) -> None:
        super().__init__(law, shift=shift, block_size=block_size)
        self.levels: list[int] = []

    def open_round(self, feed: DraftFeed) -> StubRound:
        super().draft(feed)  # checks the slots and notes what is read
        return StubRound(self, self.reads[-len(feed.anchors) :], feed)

    def level(self, texts: Sequence[tuple[int, ...]], heats: Sequence[float], count: int) -> Level:
        said = np.stack([self._law(text) for text in texts])
        order = np.argsort(-said, axis=-1, kind="stable")[:, :count]
        totals = np.log(np.exp(said / np.array(heats)[:, None]).sum(-1))
        return Level(
            ids=order.astype(np.int32),
            logits=np.take_along_axis(said, order, -1),
            log_total=totals.astype(np.float32),
        )


class StubRound:
    """Implements nets.serving.steps.SteppedRound."""

    def __init__(self, network: SteppedStubNetwork, texts: Sequence[tuple[int, ...]], feed: DraftFeed) -> None:
        self._network, self._feed = network, feed
        self._texts = list(texts)
        self._rows = list(range(len(texts)))
        self.anchors = self._level(self._texts, self._rows)

    def extend(self, parents: IntArray, tokens: IntArray) -> Level:
        above, fed = parents.tolist(), ints(tokens).tolist()
        texts = [(*self._texts[parent], token) for parent, token in zip(above, fed, strict=True)]
        rows = [self._rows[parent] for parent in above]
        if rows != sorted(rows) or set(zip(rows, texts, strict=True)) & set(zip(self._rows, self._texts, strict=True)):
            raise AssertionError("nodes of one row do not stand together, or a node is fed twice")
        self._texts += texts
        self._rows += rows
        self._network.levels.append(len(texts))
        return self._level(texts, rows)

    def _level(self, texts: Sequence[tuple[int, ...]], rows: Sequence[int]) -> Level:
        heats = [float(self._feed.temperatures[row]) for row in rows]
        return self._network.level(texts, heats, self._feed.num_candidates)
