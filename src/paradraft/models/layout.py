"""Where the tokens of one pass stand and what each may see, worked out once per pass from Batch and Proposal.

Legend: R rows, T fed tokens (of each row all pending tokens, then its draft nodes), N draft nodes, S scored positions,
M fed tokens of one row, L keys of one row (context and fed tokens), G query heads per key head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import BoolArray, IntArray, join, starts_of
from paradraft.core.records import Batch, Proposal
from paradraft.models.kv_store import Slots
from paradraft.models.slot_table import SlotTable
from paradraft.models.visibility import RowTokens, Window, visible_keys

_MOST_FOLDED = 64  # tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutNeeds:
    """What a model's attention layers ask of a layout."""

    windows: tuple[Window, ...]  # sliding windows in use, in positions; None: all positions
    num_groups: int  # query heads per key head
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowSpan:
    """One row's tokens in a pass, and the keys they see under one window.

    Few tokens are folded: the G query heads that share a key head become G lines per token of one query matrix,
    which reads the keys once; measured, that is the faster way up to about 64 tokens. `mask` is additive, [M, L], and
    if folded [G * M, L], repeated for the heads. Without it every token sees every key or, if `is_causal`, token i
    sees keys 0 .. i.
    """

    first: int  # fed tokens first .. stop
    stop: int
    keys: Slots  # [L]
    mask: Tensor | None
    is_causal: bool
    is_folded: bool


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassLayout:
    """The places of all fed tokens of one pass."""

    fed_starts: IntArray  # [R+1]
    starts: IntArray  # [R+1] into the scored positions
    tokens: Tensor  # [T] int64
    positions: Tensor  # [T] int64
    highest_position: int
    slots: Slots  # [T]
    scored: Tensor | None  # [S] int64 indices into the fed tokens; None: all are scored
    spans: Mapping[Window, tuple[RowSpan, ...]]

    def seen(self) -> Iterator[Slots]:
        """Yield the slots that any row reads."""
        return (span.keys for spans in self.spans.values() for span in spans)


def lay_out(batch: Batch, proposal: Proposal, needs: LayoutNeeds) -> PassLayout:
    """Return the layout of a pass over these rows."""
    nodes = proposal.num_nodes
    fed_starts, starts = starts_of(batch.num_pending + nodes), starts_of(batch.num_scored + nodes)
    rows = _row_tokens(batch, proposal)
    tables = [SlotTable.of(batch, index, row.num_keys) for index, row in enumerate(rows)]
    positions = join([row.positions for row in rows]) if len(rows) > 1 else rows[0].positions
    return PassLayout(
        fed_starts=fed_starts,
        starts=starts,
        tokens=_index(_fed_tokens(batch, proposal), needs.device),
        positions=_index(positions, needs.device),
        highest_position=max(row.last_position for row in rows),
        slots=_fed_slots(rows, tables, needs.device),
        scored=_scored(fed_starts, starts, needs.device),
        spans={window: _spans(rows, tables, window, needs) for window in needs.windows},
    )


def _index(values: IntArray, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(device)


def _row_tokens(batch: Batch, proposal: Proposal) -> list[RowTokens]:
    contexts, starts, node_starts = batch.context_len.tolist(), batch.starts.tolist(), proposal.starts.tolist()
    rows = []
    for row, context in enumerate(contexts):
        nodes = slice(node_starts[row], node_starts[row + 1])
        has_nodes = nodes.stop > nodes.start
        rows.append(
            RowTokens.of(
                context=context,
                num_pending=starts[row + 1] - starts[row],
                parents=proposal.parents[nodes],
                depths=proposal.depths[nodes],
                is_chain=not has_nodes or proposal.is_chain(row),
            )
        )
    return rows


def _fed_tokens(batch: Batch, proposal: Proposal) -> IntArray:
    if not len(proposal.tokens):
        return batch.tokens
    parts: list[IntArray] = []
    for row in range(batch.num_rows):
        parts += [batch.pending(row), proposal.tokens[proposal.starts[row] : proposal.starts[row + 1]]]
    return join(parts)


def _fed_slots(rows: list[RowTokens], tables: list[SlotTable], device: torch.device) -> Slots:
    if len(rows) == 1:
        return tables[0].slots(rows[0].context, rows[0].num_keys, device)
    parts = [table.numbers(row.context, row.num_keys) for row, table in zip(rows, tables, strict=True)]
    return Slots.of(join(parts), device)


def _scored(fed_starts: IntArray, starts: IntArray, device: torch.device) -> Tensor | None:
    """Return where the scored positions stand among the fed tokens: the last of each row; None if that is all."""
    if starts[-1] == fed_starts[-1]:
        return None
    counts = np.diff(starts)
    shift = np.repeat(fed_starts[1:] - starts[1:], counts)
    return torch.from_numpy(np.arange(len(shift)) + shift).to(device)


def _spans(rows: list[RowTokens], tables: list[SlotTable], window: Window, needs: LayoutNeeds) -> tuple[RowSpan, ...]:
    spans, first = [], 0
    for row, table in zip(rows, tables, strict=True):
        keys = table.slots(row.first_key(window), row.num_keys, needs.device)
        spans.append(_span(row, first, keys, window, needs))
        first += row.num_fed
    return tuple(spans)


def _span(row: RowTokens, first: int, keys: Slots, window: Window, needs: LayoutNeeds) -> RowSpan:
    num_fed = row.num_fed
    is_causal = num_fed > 1 and row.is_chain and keys.count == num_fed and not row.is_cut(window)
    is_plain = num_fed == 1 or is_causal
    is_folded = num_fed == 1 or (not is_plain and num_fed <= _MOST_FOLDED)
    mask = None if is_plain else additive(visible_keys(row, window), needs.dtype, needs.device)
    return RowSpan(
        first=first,
        stop=first + num_fed,
        keys=keys,
        mask=mask.repeat(needs.num_groups, 1) if mask is not None and is_folded else mask,
        is_causal=is_causal,
        is_folded=is_folded,
    )


def additive(visible: BoolArray, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 0 where visible and -inf elsewhere, of the same shape."""
    lines = torch.from_numpy(visible).to(device)
    return torch.zeros(lines.shape, dtype=dtype, device=device).masked_fill_(~lines, float("-inf"))
