"""Checks what a pass is asked to do before any tensor is touched: on a GPU a bad index would end the process."""

from __future__ import annotations

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Limits, Needs
from paradraft.core.records import Batch, Proposal

_BROKEN = "The batch or the drafter that made it is broken; report it."


def check_pass(batch: Batch, proposal: Proposal, limits: Limits) -> None:
    """Raise ProtocolError for ids, pages, counts or positions outside of what the target has."""
    _check_range("token id", batch.tokens, limits.vocab_size)
    _check_range("draft token id", proposal.tokens, limits.vocab_size)
    _check_range("page", batch.pages, limits.num_pages)
    if batch.num_rows != len(proposal.starts) - 1 or batch.page_size != limits.page_size:
        raise ProtocolError(
            f"{batch.num_rows} rows with pages of {batch.page_size} slots do not fit a proposal for "
            f"{len(proposal.starts) - 1} rows and a cache with pages of {limits.page_size}.",
            remedy=_BROKEN,
        )
    num_slots = (batch.page_starts[1:] - batch.page_starts[:-1]) * batch.page_size
    if (batch.context_len + batch.num_pending + proposal.num_nodes > num_slots).any():
        raise ProtocolError("A row's page table is too short for its tokens.", remedy=_BROKEN)
    if (batch.num_scored > batch.num_pending).any() or (batch.num_pending < 1).any():
        raise ProtocolError("A row is scored at more tokens than it feeds, or feeds none.", remedy=_BROKEN)
    last = int((batch.context_len + batch.num_pending).max(initial=0)) - 1
    deepest = last + int(proposal.depths.max(initial=0))
    if last >= limits.max_positions or deepest >= limits.max_positions:
        _check_depths(batch, proposal, limits.max_positions)


def check_taps(needs: Needs, num_layers: int) -> None:
    """Raise ProtocolError for layers that a target cannot record; they count from 0, -1 is the embedding."""
    for layer in (*needs.hidden_layers, *needs.entropy_layers):
        low = -1 if layer in needs.hidden_layers and layer not in needs.entropy_layers else 0
        if not low <= layer < num_layers:
            raise ProtocolError(
                f"Layer {layer} cannot be tapped: the model has layers 0 to {num_layers - 1}, and -1, the embedding, "
                "has no attention.",
                remedy="Correct the drafter's Needs.",
            )


def _check_range(what: str, values: IntArray, count: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < count:
        worst = int(values.min()) if values.min() < 0 else int(values.max())
        raise ProtocolError(f"{what} {worst} is outside of 0 to {count - 1}.", remedy=_BROKEN)


def _check_depths(batch: Batch, proposal: Proposal, max_positions: int) -> None:
    for row in range(batch.num_rows):
        depths = proposal.depths[proposal.starts[row] : proposal.starts[row + 1]]
        position = int(batch.context_len[row] + batch.num_pending[row]) - 1 + int(depths.max(initial=0))
        if position >= max_positions:
            raise ProtocolError(
                f"Position {position} lies beyond the model's context of {max_positions} tokens.",
                remedy="Shorten the prompt, max_tokens or the drafts.",
            )
