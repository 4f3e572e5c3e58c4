"""Where the tokens of one pass stand and what each may see, worked out once per pass from Batch and Proposal.

Legend: R rows, T fed tokens (of each row all pending tokens, then its draft nodes), S scored positions,
M fed tokens of one row, L keys of one row, G query heads per key head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import BoolArray, IntArray, ints, join, starts_of
from paradraft.core.records import Batch, Proposal
from paradraft.models.kv_store import Slots

Window = int | None
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

    @property
    def num_tokens(self) -> int:
        """Return T."""
        return self.slots.count

    def seen(self) -> Iterator[Slots]:
        """Yield the slots that any row reads."""
        return (span.keys for spans in self.spans.values() for span in spans)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Row:
    """One row's places in numpy: its fed tokens are logical indices context .. context + M."""

    first: int
    context: int
    num_pending: int
    parents: IntArray
    is_chain: bool
    positions: IntArray  # [M]
    slots: IntArray  # [L] of all logical indices 0 .. context + M

    @property
    def num_fed(self) -> int:
        return len(self.positions)


def lay_out(batch: Batch, proposal: Proposal, needs: LayoutNeeds) -> PassLayout:
    """Return the layout of a pass over these rows."""
    fed_starts = starts_of(batch.num_pending + proposal.num_nodes)
    rows = [_row_of(batch, proposal, r, int(fed_starts[r])) for r in range(batch.num_rows)]
    positions = join([row.positions for row in rows])
    scored = [np.arange(_scored_from(batch, r, row), row.first + row.num_fed) for r, row in enumerate(rows)]
    num_scored = sum(len(part) for part in scored)
    return PassLayout(
        fed_starts=fed_starts,
        starts=starts_of([len(part) for part in scored]),
        tokens=_index(_fed_tokens(batch, proposal), needs.device),
        positions=_index(positions, needs.device),
        highest_position=int(positions.max()) if len(positions) else 0,
        slots=Slots.of(join([row.slots[row.context :] for row in rows]), needs.device),
        scored=None if num_scored == len(positions) else _index(join(scored), needs.device),
        spans={window: tuple(_span(row, window, needs) for row in rows) for window in needs.windows},
    )


def _index(values: IntArray, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(device)


def _fed_tokens(batch: Batch, proposal: Proposal) -> IntArray:
    if not len(proposal.tokens):
        return batch.tokens
    parts: list[IntArray] = []
    for r in range(batch.num_rows):
        parts += [batch.pending(r), proposal.tokens[proposal.starts[r] : proposal.starts[r + 1]]]
    return join(parts)


def _scored_from(batch: Batch, index: int, row: _Row) -> int:
    return row.first + row.num_pending - int(batch.num_scored[index])


def _row_of(batch: Batch, proposal: Proposal, index: int, first: int) -> _Row:
    context = int(batch.context_len[index])
    num_pending = int(batch.starts[index + 1] - batch.starts[index])
    nodes = slice(int(proposal.starts[index]), int(proposal.starts[index + 1]))
    depths = proposal.depths[nodes]
    logical = np.arange(context + num_pending + len(depths), dtype=np.int32)
    size = batch.page_size
    return _Row(
        first=first,
        context=context,
        num_pending=num_pending,
        parents=proposal.parents[nodes],
        is_chain=proposal.is_chain(index),
        positions=ints(np.concatenate([logical[context : context + num_pending], context + num_pending - 1 + depths])),
        slots=ints(batch.page_table(index)[logical // size] * size + logical % size),
    )


def _span(row: _Row, window: Window, needs: LayoutNeeds) -> RowSpan:
    start = 0 if window is None else max(0, row.context - window + 1)
    is_cut = window is not None and int(row.positions.max()) - start >= window
    is_plain = row.num_fed == 1 or (row.is_chain and start == row.context and not is_cut)
    is_folded = row.num_fed == 1 or (not is_plain and row.num_fed <= _MOST_FOLDED)
    mask = None if is_plain else _additive(_visible(row, start, window if is_cut else None), needs)
    return RowSpan(
        first=row.first,
        stop=row.first + row.num_fed,
        keys=Slots.of(row.slots[start:], needs.device),
        mask=mask.repeat(needs.num_groups, 1) if mask is not None and is_folded else mask,
        is_causal=is_plain and row.num_fed > 1,
        is_folded=is_folded,
    )


def _visible(row: _Row, start: int, window: Window) -> BoolArray:
    """Return which keys start .. L each fed token of the row sees, [M, L - start]."""
    known = row.context + row.num_pending
    logical = np.arange(start, len(row.slots), dtype=np.int32)
    visible = logical[None, :] <= np.arange(row.context, len(row.slots), dtype=np.int32)[:, None]
    if not row.is_chain:
        visible[row.num_pending :, known - start :] = _ancestors(row.parents)
    if window is not None:
        key_positions = np.concatenate([logical[: known - start], row.positions[row.num_pending :]])
        visible &= row.positions[:, None] - key_positions[None, :] < window
    return visible


def _ancestors(parents: Sequence[int] | IntArray) -> BoolArray:
    """Return for each node its ancestors and itself, [nodes, nodes]; parents come before children."""
    seen = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents):
        if parent >= 0:
            seen[node] |= seen[parent]
    return seen


def _additive(visible: BoolArray, needs: LayoutNeeds) -> Tensor:
    """Return 0 where visible and -inf elsewhere, [M, L]."""
    lines = torch.from_numpy(visible).to(needs.device)
    return torch.zeros(lines.shape, dtype=needs.dtype, device=needs.device).masked_fill_(~lines, float("-inf"))
