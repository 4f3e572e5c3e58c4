"""A batch and its proposal as the arrays that the native core reads.

Legend: R rows. Fed tokens are all pending tokens of a row, then its draft nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.records import Batch, Proposal
from paradraft.native.records import PassInput


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Taps:
    """Which layers' hidden states and attention entropies a pass records."""

    hidden_layers: IntArray  # -1 is the embedding
    entropy_layers: IntArray


def lay_out(batch: Batch, proposal: Proposal, taps: Taps) -> tuple[PassInput, IntArray]:
    """Return the input of a pass over these rows, and where each row's scored positions start, [R+1]."""
    # Plain integers, and few arrays: a decoding pass feeds a dozen tokens, and each array call costs more than those.
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    parents: list[int] = []
    scored: list[int] = []
    fed_starts, starts = [0], [0]
    contexts: list[IntArray] = []
    first_nodes: list[int] = proposal.starts.tolist()
    rows = zip(batch.context_len.tolist(), batch.num_scored.tolist(), pairwise(first_nodes), strict=True)
    for index, (context, num_scored, (low, high)) in enumerate(rows):
        pending = batch.pending(index).tolist()
        count, last = len(pending), context + len(pending) - 1
        row_slots = _slots(batch.page_table(index), batch.page_size, last + 1 + high - low)
        contexts.append(row_slots[:context])
        tokens += pending + proposal.tokens[low:high].tolist()
        positions += [*range(context, last + 1), *[last + depth for depth in proposal.depths[low:high].tolist()]]
        slots += row_slots[context:].tolist()
        # A node without a parent, -1, hangs on the last pending token.
        parents += [*range(-1, count - 1), *[count + parent for parent in proposal.parents[low:high].tolist()]]
        scored += range(fed_starts[-1] + count - num_scored, len(tokens))
        fed_starts.append(len(tokens))
        starts.append(len(scored))
    fed = np.array((tokens, positions, slots, parents), dtype=np.int32)
    given = PassInput(
        row_starts=ints(fed_starts),
        tokens=fed[0],
        positions=fed[1],
        slots=fed[2],
        parents=fed[3],
        context_starts=starts_of(batch.context_len),
        context_slots=contexts[0] if len(contexts) == 1 else join(contexts),
        scored=ints(scored),
        hidden_layers=taps.hidden_layers,
        entropy_layers=taps.entropy_layers,
    )
    return given, ints(starts)


def _slots(pages: IntArray, page_size: int, count: int) -> IntArray:
    """Return the slots of a row's first logical indices, [count]."""
    used = pages[: -(-count // page_size), None] * np.int32(page_size)
    return ints((used + np.arange(page_size, dtype=np.int32)).reshape(-1)[:count])
