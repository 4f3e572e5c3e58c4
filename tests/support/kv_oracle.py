"""A slow, obvious key-value cache: each slot remembers which tokens, of which tenant, its content was computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.kv.lease import Lease
from paradraft.kv.pages import PageCache
from paradraft.kv.records import Moves

Content = tuple[str, tuple[int, ...]]  # tenant's salt, and every token up to and including the slot's own


@dataclass
class Row:
    """What the engine knows of one row. `tokens` are all known ones; those behind lease.committed are pending."""

    lease: Lease
    salt: str
    tokens: list[int]
    staged_pending: int = 0
    nodes: list[tuple[int, int]] = field(default_factory=list)  # (parent, token); parent -1 is the last pending token

    def path_to(self, node: int) -> list[int]:
        """Return the nodes from the root to this one."""
        path: list[int] = []
        while node >= 0:
            path.insert(0, node)
            node = self.nodes[node][0]
        return path


class SlotOracle:
    """Writes and reads slots the way a target does, through page tables and moves only."""

    def __init__(self, pages: PageCache) -> None:
        self.pages = pages
        self.slots: list[Content | None] = [None] * (pages.num_pages * pages.page_size)

    def slot(self, lease: Lease, index: int) -> int:
        """Return the cache slot of a logical one."""
        size = self.pages.page_size
        return int(lease.page_table[index // size]) * size + index % size

    def feed(self, row: Row, num_pending: int, nodes: list[tuple[int, int]]) -> None:
        """Stage pending tokens and a tree behind them, and write their content as a pass would."""
        lease = row.lease
        lease.reserve(lease.committed + num_pending + len(nodes))
        lease.stage(num_pending + len(nodes))
        row.staged_pending, row.nodes = num_pending, nodes
        base = lease.committed + num_pending
        for index in range(lease.committed, base):
            self.slots[self.slot(lease, index)] = (row.salt, tuple(row.tokens[: index + 1]))
        for node in range(len(nodes)):
            path = [nodes[step][1] for step in row.path_to(node)]
            self.slots[self.slot(lease, base + node)] = (row.salt, (*row.tokens[:base], *path))

    def settle(self, row: Row, kept: int, path: list[int], bonus: list[int]) -> Moves:
        """Commit part of what was fed, with the next token, and do the moves."""
        base = row.lease.committed + kept
        row.tokens[base:] = [*(row.nodes[step][1] for step in path), *(bonus or row.tokens[base:])]
        moves = row.lease.commit(kept, ints(path), ints(row.tokens))
        values = [self.slots[source] for source in moves.sources.tolist()]
        for destination, value in zip(moves.destinations.tolist(), values, strict=True):
            self.slots[destination] = value
        row.nodes = []
        return moves

    def wrong_positions(self, row: Row) -> list[int]:
        """Return the committed positions that do not read back the row's own tokens."""
        return [
            index
            for index in range(row.lease.committed)
            if self.slots[self.slot(row.lease, index)] != (row.salt, tuple(row.tokens[: index + 1]))
        ]

    def open(self, tokens: list[int], salt: str = "", *, reuse: bool = True) -> Row:
        """Open a row."""
        return Row(self.pages.open(ints(tokens), salt=salt, reuse=reuse), salt, list(tokens))

    def prefill(self, row: Row, chunk: int = 1 << 20) -> None:
        """Feed and commit all known tokens, so many at a time."""
        while row.lease.committed < len(row.tokens):
            count = min(chunk, len(row.tokens) - row.lease.committed)
            self.feed(row, count, [])
            self.settle(row, count, [], [])


def counting(length: int, start: int = 0) -> IntArray:
    """Return the tokens start, start+1, ..."""
    return ints(np.arange(start, start + length))
