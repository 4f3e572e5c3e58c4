"""Greedy decoding with nothing but a target: the whole text is fed again for every token."""

from __future__ import annotations

from paradraft.core.ports import Target
from paradraft.core.records import Proposal
from support.passes import Row, batch_of


def greedy(target: Target, prompt: list[int], count: int) -> list[int]:
    """Return count ids; the text must fit into the target's pages."""
    size = target.limits.page_size
    known = list(prompt)
    for _ in range(count):
        pages = list(range(-(-len(known) // size)))
        batch = batch_of([Row(tokens=known, pages=pages)], size)
        known.append(int(target.submit(batch, Proposal.empty(1)).wait().argmax()[0]))
    return known[len(prompt) :]
