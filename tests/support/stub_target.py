"""A target without a network: its logits are a hash of the tokens it finds in its cache slots.

Tokens are written to and read from slots through the page tables, so a wrong slot, a lost move or a stale
page changes the logits, just as it would change a real model's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints, join, starts_of
from paradraft.core.ports import Limits
from paradraft.core.records import Batch, Proposal

Law = Callable[[tuple[int, ...]], FloatArray]


def hashed_law(vocab_size: int, *, spread: float = 2.0, salt: int = 0) -> Law:
    """Logits drawn from a generator seeded with the last few tokens of the prefix."""

    def law(prefix: tuple[int, ...]) -> FloatArray:
        seed = zlib.crc32(np.asarray((salt, *prefix), dtype=np.int64).tobytes())
        return (np.random.default_rng(seed).standard_normal(vocab_size) * spread).astype(np.float32)

    return law


class StubTarget:
    """Implements the Target port over `law`: prefix -> logits."""

    def __init__(
        self, law: Law, *, vocab_size: int, num_pages: int = 64, page_size: int = 4, max_positions: int = 4096
    ) -> None:
        self._law = law
        self._slots = np.full(num_pages * page_size, -1, dtype=np.int64)
        self.num_passes = 0
        self.fed: list[int] = []
        self.is_closed = False
        self.limits = Limits(
            name="stub",
            runner="stub",
            dtype="fp32",
            vocab_size=vocab_size,
            num_layers=1,
            hidden_size=1,
            max_positions=max_positions,
            num_pages=num_pages,
            page_size=page_size,
            bytes_per_token=8,
            weight_bytes=0,
        )

    def submit(self, batch: Batch, proposal: Proposal) -> StubTicket:
        self.num_passes += 1
        self.fed.append(len(batch.tokens) + len(proposal.tokens))
        rows: list[FloatArray] = []
        counts: list[int] = []
        for index in range(batch.num_rows):
            scored = self._score_row(batch, proposal, index)
            counts.append(len(scored))
            rows.extend(scored)
        fed = batch.num_pending + proposal.num_nodes
        parts = [(batch.pending(index), _nodes(proposal, index)) for index in range(batch.num_rows)]
        tokens = join([part for both in parts for part in both])
        return StubTicket(StubScores(rows, starts_of(counts), starts_of(fed), fed=tokens))

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        self._slots[destinations] = self._slots[sources].copy()

    def close(self) -> None:
        self.is_closed = True

    def _score_row(self, batch: Batch, proposal: Proposal, index: int) -> list[FloatArray]:
        pending = batch.pending(index)
        low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
        nodes, parents = _nodes(proposal, index), proposal.parents[low:high]
        context = int(batch.context_len[index])
        slots = self._slots_of(batch, index, context + len(pending) + len(nodes))
        self._slots[slots[context:]] = np.concatenate([pending, nodes])
        base = tuple(self._slots[slots[: context + len(pending)]].tolist())
        if -1 in base:
            raise AssertionError(f"row {index} reads a slot that was never written")
        first = len(base) - int(batch.num_scored[index])
        scored = [self._law(base[: at + 1]) for at in range(first, len(base))]
        paths: list[tuple[int, ...]] = []
        for token, parent in zip(nodes.tolist(), parents.tolist(), strict=True):
            paths.append((*(paths[parent] if parent >= 0 else base), token))
            scored.append(self._law(paths[-1]))
        return scored

    def _slots_of(self, batch: Batch, index: int, length: int) -> IntArray:
        logical = np.arange(length)
        table = batch.page_table(index)
        return ints(table[logical // batch.page_size] * batch.page_size + logical % batch.page_size)


def _nodes(proposal: Proposal, index: int) -> IntArray:
    return proposal.tokens[proposal.starts[index] : proposal.starts[index + 1]]


class StubTicket:
    def __init__(self, scores: StubScores) -> None:
        self._scores = scores

    def wait(self) -> StubScores:
        return self._scores


class StubScores:
    """Implements the Scores port over a list of logit rows. Every tap of a fed token is the token itself, [1]."""

    def __init__(
        self, rows: list[FloatArray], starts: IntArray, fed_starts: IntArray, fed: IntArray | None = None
    ) -> None:
        self._rows = rows
        self._fed = ints([0] * int(fed_starts[-1])) if fed is None else fed
        self.starts = starts
        self.fed_starts = fed_starts

    def argmax(self) -> IntArray:
        return ints([int(row.argmax()) for row in self._rows])

    def row(self, index: int) -> FloatArray:
        return self._rows[index]

    def top(self, index: int, count: int) -> tuple[IntArray, FloatArray]:
        row = self._rows[index]
        order = np.lexsort((np.arange(len(row)), -row))[:count]
        return ints(order), row[order]

    def hidden(self, layer: int) -> FloatArray:
        return self._fed[:, None].astype(np.float32)

    def attention_entropy(self, layer: int) -> FloatArray:
        return np.zeros((int(self.fed_starts[-1]), 1), dtype=np.float32)


def continue_plainly(law: Law, prompt: list[int], count: int) -> list[int]:
    """Return the greedy continuation, one token at a time, without any cache."""
    known = list(prompt)
    for _ in range(count):
        known.append(int(law(tuple(known)).argmax()))
    return known[len(prompt) :]
