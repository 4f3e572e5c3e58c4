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
    # Plain integers: a batch has few rows, and an array call takes longer than all of them.
    starts, pages, nodes = batch.starts.tolist(), batch.page_starts.tolist(), proposal.starts.tolist()
    for row, (context, num_scored) in enumerate(
        zip(batch.context_len.tolist(), batch.num_scored.tolist(), strict=True)
    ):
        num_pending = starts[row + 1] - starts[row]
        known = context + num_pending
        if known + nodes[row + 1] - nodes[row] > (pages[row + 1] - pages[row]) * batch.page_size:
            raise ProtocolError("A row's page table is too short for its tokens.", remedy=_BROKEN)
        if num_pending < max(num_scored, 1):
            raise ProtocolError("A row is scored at more tokens than it feeds, or feeds none.", remedy=_BROKEN)
        position = known - 1 + max(proposal.depths[nodes[row] : nodes[row + 1]].tolist(), default=0)
        if position >= limits.max_positions:
            raise ProtocolError(
                f"Position {position} lies beyond the model's context of {limits.max_positions} tokens.",
                remedy="Shorten the prompt, max_tokens or the drafts.",
            )


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
    numbers: list[int] = values.tolist()
    lowest, highest = min(numbers, default=0), max(numbers, default=0)
    if lowest < 0 or highest >= count:
        raise ProtocolError(
            f"{what} {lowest if lowest < 0 else highest} is outside of 0 to {count - 1}.", remedy=_BROKEN
        )
