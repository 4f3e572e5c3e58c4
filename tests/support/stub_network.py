"""A drafting network without weights: what it says is a hash of the tokens that it finds in its cache slots.

Taps of the stub target are its tokens, so a tap of another place, a wrong slot or a page that is not the row's own
changes what the network says, as it would change a real one's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.drafters.neural.drafter import NeuralDrafter
from paradraft.drafters.neural.options import NeuralOptions
from paradraft.kv.pages import PageCache
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals
from support.stub_target import Law

NEVER = -1


class StubNetwork:
    """Implements drafters.neural.ports.Network over `law`: slot k is law(text, anchor and k best tokens), plus a bias.

    `reads` are the texts that rounds have read, anchors included.
    """

    name = "stub"
    tap_layers = (0,)
    tap_size = 1
    max_positions = 16384
    extra_bytes = 0

    def __init__(self, law: Law, *, shift: int = 0, block_size: int = 6, num_slots: int = 4096) -> None:
        self.shift = shift
        self.block_size = block_size
        self.is_broken = False
        self.reads: list[tuple[int, ...]] = []
        self.positions: list[list[int]] = []
        self.num_fed = 0
        self.num_strange = 0  # taps that are not those of their tokens
        self._law = law
        self._tokens = np.full(num_slots, NEVER, dtype=np.int64)  # those of taps
        self._positions = np.full(num_slots, NEVER, dtype=np.int64)

    def append(self, feed: ContextFeed) -> None:
        self._work()
        tokens = feed.taps[:, 0].astype(np.int64)
        if not self.shift:
            self.num_strange += int((tokens != feed.tokens).sum())
        self._tokens[feed.slots] = tokens
        self._positions[feed.slots] = feed.positions
        self.num_fed += len(tokens)

    def draft(self, feed: DraftFeed) -> Marginals:
        self._work()
        rows = [self._row(feed, row) for row in range(len(feed.anchors))]
        return Marginals(
            ids=np.stack([ids for ids, _, _ in rows]),
            logits=np.stack([logits for _, logits, _ in rows]),
            log_total=np.stack([total for _, _, total in rows]),
        )

    def close(self) -> None:
        pass

    def _work(self) -> None:
        if self.is_broken:
            raise RuntimeError("the stub network is broken")

    def _row(self, feed: DraftFeed, row: int) -> tuple[IntArray, FloatArray, FloatArray]:
        slots = feed.context_slots[feed.context_starts[row] : feed.context_starts[row + 1]]
        scratch = feed.scratch_slots[feed.scratch_starts[row] : feed.scratch_starts[row + 1]]
        if len(scratch) != self.block_size + 1 or set(scratch.tolist()) & set(slots.tolist()):
            raise AssertionError(f"row {row} has scratch slots {scratch} behind {slots}")
        context = self._tokens[slots].tolist()
        self._tokens[scratch] = NEVER
        if NEVER in context:
            raise AssertionError(f"row {row} reads a slot that was never written")
        if self.shift:
            context.append(int(feed.taps[row, 0]))
        text = (*context, int(feed.anchors[row]))
        self.reads.append(text)
        self.positions.append([*self._positions[slots].tolist(), int(feed.positions[row])])
        return self._said(text, float(feed.temperatures[row]), feed.num_candidates)

    def _said(self, text: tuple[int, ...], heat: float, count: int) -> tuple[IntArray, FloatArray, FloatArray]:
        ids, logits, totals = [], [], []
        for _ in range(self.block_size):
            said = self._law(text)
            order = np.argsort(-said, kind="stable")[:count]
            ids.append(order)
            logits.append(said[order])
            totals.append(np.log(np.exp(said / heat).sum()))
            text = (*text, int(order[0]))
        return ints(np.concatenate(ids)).reshape(len(ids), -1), np.stack(logits), np.array(totals, dtype=np.float32)


def build_neural_drafter(
    network: StubNetwork, *, num_pages: int = 1024, page_size: int = 4, **options: object
) -> NeuralDrafter:
    """Return a drafter over the network; options are NeuralOptions fields. Nodes cost nothing unless they say so."""
    values: dict[str, object] = {"node_cost": 0.0, **options}
    pages = PageCache(num_pages=num_pages, page_size=page_size)
    return NeuralDrafter(network, pages, options=NeuralOptions(**values))  # type: ignore[arg-type]


def is_prefix(read: Sequence[int], text: Sequence[int]) -> bool:
    """Whether a text begins with what was read."""
    return list(text[: len(read)]) == list(read)
