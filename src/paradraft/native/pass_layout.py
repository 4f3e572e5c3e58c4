"""A batch and its proposal as the arrays that the native core reads.

Legend: R rows, T fed tokens (of each row all pending tokens, then its draft nodes), N draft nodes, S scored positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.records import Batch, Proposal


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassLayout:
    """Where the tokens of one pass stand, what precedes each, and which are scored."""

    fed_starts: IntArray  # [R+1]
    starts: IntArray  # [R+1] into the scored positions
    tokens: IntArray  # [T]
    positions: IntArray  # [T]
    slots: IntArray  # [T] where keys and values go
    parents: IntArray  # [T] the token before, counted within the row's fed tokens; -1: the row's context
    context_starts: IntArray  # [R+1]
    context_slots: IntArray  # of the cached tokens of each row, in order
    scored: IntArray  # [S] indices into the fed tokens


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Row:
    """The share of one row."""

    tokens: IntArray
    positions: IntArray
    slots: IntArray
    parents: IntArray
    context_slots: IntArray


def lay_out(batch: Batch, proposal: Proposal) -> PassLayout:
    """Return the layout of a pass over these rows."""
    nodes = proposal.num_nodes
    fed_starts, starts = starts_of(batch.num_pending + nodes), starts_of(batch.num_scored + nodes)
    rows = [_row(batch, proposal, index) for index in range(batch.num_rows)]
    return PassLayout(
        fed_starts=fed_starts,
        starts=starts,
        tokens=join([row.tokens for row in rows]),
        positions=join([row.positions for row in rows]),
        slots=join([row.slots for row in rows]),
        parents=join([row.parents for row in rows]),
        context_starts=starts_of(batch.context_len),
        context_slots=join([row.context_slots for row in rows]),
        scored=_scored(fed_starts, starts),
    )


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
