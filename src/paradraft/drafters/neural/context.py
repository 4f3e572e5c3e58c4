"""Feeds a network: writes what rows have learned to its cache, and lays a round out.

Legend: R rows, n entries, m tapped layers, d hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints, join, starts_of
from paradraft.core.ports import Scores
from paradraft.core.records import Batch, Verdict
from paradraft.drafters.neural.ports import Network
from paradraft.drafters.neural.rows import NeuralRow, slots_between
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowText:
    """A row and the tokens known of it."""

    row: NeuralRow
    history: IntArray
    temperature: float = 1.0

    @property
    def anchor_entry(self) -> int:
        """Return the entry that the anchor's draft begins behind: context ends there."""
        return len(self.history) - 1 - self.row.shift


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    text: RowText
    positions: IntArray
    taps: FloatArray


def write_context(network: Network, page_size: int, texts: Sequence[RowText]) -> None:
    """Cache all entries of these rows that are known and not cached; rows short of pages go on without theirs."""
    writings: list[_Writing] = []
    for text in texts:
        taken = text.row.take(text.anchor_entry)
        if taken is not None:
            if text.row.stage(len(taken[0])):
                writings.append(_Writing(text, *taken))
            else:
                text.row.give_up(len(taken[0]))
    if not writings:
        return
    is_written = False
    try:
        network.append(_context_feed(writings, page_size))
        is_written = True
    finally:
        for writing in writings:
            writing.text.row.keep(len(writing.positions) if is_written else 0, writing.text.history)
            if not is_written:
                writing.text.row.give_up(len(writing.positions))


def _context_feed(writings: Sequence[_Writing], page_size: int) -> ContextFeed:
    leases = [writing.text.row.lease for writing in writings]
    counts = [len(writing.positions) for writing in writings]
    committed = [lease.committed for lease in leases]
    bounds = list(zip(leases, committed, counts, strict=True))
    return ContextFeed(
        starts=starts_of(counts),
        tokens=join([writing.text.history[writing.positions + writing.text.row.shift] for writing in writings]),
        taps=np.concatenate([writing.taps for writing in writings]),
        positions=join([writing.positions for writing in writings]),
        slots=join([slots_between(lease, had, had + count, page_size) for lease, had, count in bounds]),
        context_starts=starts_of(committed),
        context_slots=join([slots_between(lease, 0, had, page_size) for lease, had, _ in bounds]),
    )


def run_round(
    network: Network,
    page_size: int,
    texts: Sequence[RowText],
    ask: Callable[[DraftFeed], Answer],
    *,
    depth: int,
    num_candidates: int,
) -> Answer:
    """Return what the network is asked about these rows.

    Their scratch slots (block_size + 1 each) are staged, and are given back in any case.
    """
    try:
        return ask(_draft_feed(network, page_size, texts, (depth, num_candidates)))
    finally:
        for text in texts:
            text.row.keep(0, text.history)


def _draft_feed(network: Network, page_size: int, texts: Sequence[RowText], size: tuple[int, int]) -> DraftFeed:
    leases = [text.row.lease for text in texts]
    num_scratch = network.block_size + 1
    return DraftFeed(
        anchors=ints([int(text.history[-1]) for text in texts]),
        positions=ints([text.anchor_entry for text in texts]),
        taps=_last_taps(network, texts),
        temperatures=np.array([text.temperature for text in texts], dtype=np.float32),
        context_starts=starts_of([lease.committed for lease in leases]),
        context_slots=join([slots_between(lease, 0, lease.committed, page_size) for lease in leases]),
        scratch_starts=starts_of([num_scratch] * len(texts)),
        scratch_slots=join(
            [slots_between(lease, lease.committed, lease.committed + num_scratch, page_size) for lease in leases]
        ),
        depth=size[0],
        num_candidates=size[1],
    )


def _last_taps(network: Network, texts: Sequence[RowText]) -> FloatArray:
    """Return the tap of the token before each anchor, [R, m * d]; it waits in rows of shifted networks only."""
    found = [text.row.tap_at(len(text.history) - 2) if network.shift else None for text in texts]
    nothing = np.zeros(network.tap_size, dtype=np.float32)
    return np.stack([nothing if tap is None else tap for tap in found])


def fed_places(batch: Batch, scores: Scores, verdict: Verdict, index: int) -> IntArray:
    """Return the places, among the fed tokens, of a row's pending tokens and of the nodes that stood."""
    first, pending = int(scores.fed_starts[index]), batch.pending_len(index)
    path = verdict.path_of(index) + (first + pending)
    return np.concatenate([np.arange(first, first + pending, dtype=np.int32), path])
