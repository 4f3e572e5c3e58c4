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

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.records import Batch, Proposal
from paradraft.models.kv_store import Slots
from paradraft.models.visibility import RowTokens, additive, visible_keys
from paradraft.models.visibility import Window as Window

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
    pending, nodes = batch.num_pending, proposal.num_nodes
    fed_starts = starts_of(pending + nodes)
    starts = starts_of(batch.num_scored + nodes)
    positions = _positions(batch, proposal, fed_starts)
    slots, key_starts = _key_slots(batch, pending + nodes)
    fed_slots = slots[_ranges(key_starts[:-1] + batch.context_len, pending + nodes)]
    is_all_scored = starts[-1] == fed_starts[-1]
    scored = None if is_all_scored else _ranges(fed_starts[1:] - np.diff(starts), np.diff(starts))
    breaks = ints(np.flatnonzero(np.diff(slots) != 1))
    rows = [
        RowTokens(
            context=int(batch.context_len[row]),
            num_pending=int(pending[row]),
            parents=proposal.parents[proposal.starts[row] : proposal.starts[row + 1]],
            is_chain=not nodes[row] or proposal.is_chain(row),
            positions=positions[fed_starts[row] : fed_starts[row + 1]],
        )
        for row in range(batch.num_rows)
    ]
    places = _KeyPlaces(slots=slots, starts=key_starts, breaks=breaks, device=needs.device)
    return PassLayout(
        fed_starts=fed_starts,
        starts=starts,
        tokens=_index(_fed_tokens(batch, proposal, fed_starts), needs.device),
        positions=_index(positions, needs.device),
        highest_position=int(positions.max(initial=0)),
        slots=Slots.of(fed_slots, needs.device),
        scored=None if scored is None else _index(scored, needs.device),
        spans={
            window: tuple(
                _span(row, int(fed_starts[r]), places.of(r, row.first_key(window)), window, needs)
                for r, row in enumerate(rows)
            )
            for window in needs.windows
        },
    )


def _index(values: IntArray, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(device)


def _ranges(firsts: IntArray, counts: IntArray) -> IntArray:
    """Concatenate first .. first + count for each pair."""
    if len(counts) == 1:  # the usual case deserves the short way: the general one takes 6 us more
        first, count = int(firsts[0]), int(counts[0])
        return np.arange(first, first + count, dtype=np.int32)
    starts = starts_of(counts)
    return ints(np.arange(starts[-1], dtype=np.int32) + np.repeat(firsts - starts[:-1], counts))


def _node_places(batch: Batch, proposal: Proposal, fed_starts: IntArray) -> IntArray:
    """Return where the draft nodes stand among the fed tokens, [N]."""
    return _ranges(fed_starts[:-1] + batch.num_pending, proposal.num_nodes)


def _fed_tokens(batch: Batch, proposal: Proposal, fed_starts: IntArray) -> IntArray:
    if not len(proposal.tokens):
        return batch.tokens
    tokens = np.empty(fed_starts[-1], dtype=np.int32)
    tokens[_ranges(fed_starts[:-1], batch.num_pending)] = batch.tokens
    tokens[_node_places(batch, proposal, fed_starts)] = proposal.tokens
    return tokens


def _positions(batch: Batch, proposal: Proposal, fed_starts: IntArray) -> IntArray:
    """Return the position of each fed token, [T]: a node's is that of its depth."""
    positions = _ranges(batch.context_len, ints(np.diff(fed_starts)))
    if len(proposal.tokens):
        last_pending = np.repeat(batch.context_len + batch.num_pending - 1, proposal.num_nodes)
        positions[_node_places(batch, proposal, fed_starts)] = last_pending + proposal.depths
    return positions


def _key_slots(batch: Batch, num_fed: IntArray) -> tuple[IntArray, IntArray]:
    """Return the slots of all keys of each row in logical order, and the starts of the rows in them."""
    num_keys = batch.context_len + num_fed
    logical = _ranges(np.zeros_like(num_keys), num_keys)
    pages = np.repeat(batch.page_starts[:-1], num_keys) + logical // batch.page_size
    return ints(batch.pages[pages] * batch.page_size + logical % batch.page_size), starts_of(num_keys)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _KeyPlaces:
    """The slots of all rows; `breaks` are the indices after which slots are not consecutive."""

    slots: IntArray
    starts: IntArray
    breaks: IntArray
    device: torch.device

    def of(self, row: int, first_key: int) -> Slots:
        """Return the slots of a row's keys from logical index first_key on."""
        low, high = int(self.starts[row]) + first_key, int(self.starts[row + 1])
        if np.searchsorted(self.breaks, low) == np.searchsorted(self.breaks, high - 1):
            return Slots(first=int(self.slots[low]), count=high - low)
        return Slots.of(self.slots[low:high], self.device)


def _span(row: RowTokens, first: int, keys: Slots, window: Window, needs: LayoutNeeds) -> RowSpan:
    num_fed = len(row.positions)
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
