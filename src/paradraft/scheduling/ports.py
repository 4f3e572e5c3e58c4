"""What the scheduler sees of the rows: a few integers each, and four things it may do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class RowNeed:
    """The state of a running row that scheduling depends on."""

    row: int
    known_len: int  # tokens known: prompt and committed ones
    committed: int  # tokens whose keys and values are cached
    remaining: int  # tokens the row may still produce
    gamma: int | None  # the request's own draft depth; None: the policy's; 0: plain decoding
    max_chunk: int  # most prompt tokens it may feed in one step

    @property
    def num_pending(self) -> int:
        """Return the number of known tokens that are not cached."""
        return self.known_len - self.committed


class Rows(Protocol):
    """The rows of the engine, as far as scheduling may touch them."""

    @property
    def num_admissible(self) -> int:
        """Return how many waiting requests would find a free row."""
        ...

    def running(self) -> Sequence[RowNeed]:
        """Return the running rows, oldest request first."""
        ...

    def admit(self) -> RowNeed | None:
        """Give the oldest waiting request a row; None if nothing waits, no row is free or it must wait for a twin."""
        ...

    def reserve(self, row: int, length: int) -> bool:
        """Make the row's page table cover this many positions; False (and no change) if pages are short."""
        ...

    def preempt(self, row: int) -> None:
        """Take the row's pages and put its request back at the head of the queue, with what it has produced."""
        ...
