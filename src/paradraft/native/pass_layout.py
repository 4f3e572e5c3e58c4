"""A batch and its proposal as the arrays that the native core reads.

Legend: R rows. Fed tokens are all pending tokens of a row, then its draft nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.records import Batch, Proposal
from paradraft.native.records import PassInput


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Taps:
    """Which layers' hidden states and attention entropies a pass records."""

    hidden_layers: IntArray  # -1 is the embedding
    entropy_layers: IntArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Row:
    """The share of one row."""

    tokens: IntArray
    positions: IntArray
    slots: IntArray
    parents: IntArray
    context_slots: IntArray


def lay_out(batch: Batch, proposal: Proposal, taps: Taps) -> tuple[PassInput, IntArray]:
    """Return the input of a pass over these rows, and where each row's scored positions start, [R+1]."""
    nodes = proposal.num_nodes
    fed_starts, starts = starts_of(batch.num_pending + nodes), starts_of(batch.num_scored + nodes)
    rows = [_row(batch, proposal, index) for index in range(batch.num_rows)]
    given = PassInput(
        row_starts=fed_starts,
        tokens=join([row.tokens for row in rows]),
        positions=join([row.positions for row in rows]),
        slots=join([row.slots for row in rows]),
        parents=join([row.parents for row in rows]),
        context_starts=starts_of(batch.context_len),
        context_slots=join([row.context_slots for row in rows]),
        scored=_scored(fed_starts, starts),
        hidden_layers=taps.hidden_layers,
        entropy_layers=taps.entropy_layers,
    )
    return given, starts


def _row(batch: Batch, proposal: Proposal, index: int) -> _Row:
    context, num_pending = int(batch.context_len[index]), batch.pending_len(index)
    nodes = slice(int(proposal.starts[index]), int(proposal.starts[index + 1]))
    known = context + num_pending
    slots = _slots(batch.page_table(index), batch.page_size, known + nodes.stop - nodes.start)
    pending = np.arange(num_pending, dtype=np.int32)
    node_parents = proposal.parents[nodes] + np.int32(num_pending)
    node_parents[node_parents < num_pending] = num_pending - 1
    return _Row(
        tokens=join([batch.pending(index), proposal.tokens[nodes]]),
        positions=join([pending + np.int32(context), proposal.depths[nodes] + np.int32(known - 1)]),
        slots=slots[context:],
        parents=join([pending - 1, node_parents]),
        context_slots=slots[:context],
    )


def _slots(pages: IntArray, page_size: int, count: int) -> IntArray:
    """Return the slots of a row's first logical indices, [count]."""
    used = pages[: -(-count // page_size), None] * np.int32(page_size)
    return ints((used + np.arange(page_size, dtype=np.int32)).reshape(-1)[:count])


def _scored(fed_starts: IntArray, starts: IntArray) -> IntArray:
    """Return where the scored positions stand among the fed tokens: the last of each row."""
    counts = np.diff(starts)
    shift = np.repeat(fed_starts[1:] - starts[1:], counts)
    return ints(np.arange(len(shift), dtype=np.int32) + shift)
