"""A row's page numbers: a list for bookkeeping and an array for everybody else."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.kv.records import Moves

_NO_SLOTS = ints([])
_NO_SLOTS.flags.writeable = False
_NO_MOVES = Moves(sources=_NO_SLOTS, destinations=_NO_SLOTS)


class PageTable:
    """Page numbers in logical order. `view` is read-only, and one handed out keeps showing what it showed."""

    __slots__ = ("_buffer", "num_runs", "pages", "view")

    def __init__(self, pages: list[int]) -> None:
        self.pages: list[int] = []
        self.view: IntArray = np.empty(0, dtype=np.int32)
        self.num_runs = 0
        self._buffer: IntArray = np.empty(max(8, 2 * len(pages)), dtype=np.int32)
        self.extend(pages)

    def __len__(self) -> int:
        return len(self.pages)

    def extend(self, pages: list[int]) -> int:
        """Append pages; return how many of them do not follow the page before them."""
        had, total = len(self.pages), len(self.pages) + len(pages)
        last = self.pages[-1] if had else -2
        apart = sum(page != before + 1 for before, page in zip([last, *pages], pages, strict=False))
        self.pages.extend(pages)
        self.num_runs += apart
        if total > len(self._buffer):
            self._buffer = np.concatenate([self._buffer[:had], np.empty(2 * total - had, dtype=np.int32)])
        self._buffer[had:total] = pages
        self.view = self._buffer[:total]
        self.view.flags.writeable = False
        return apart

    def cut(self, keep: int) -> None:
        """Drop the pages from `keep` on. The rest moves to another array, since views may show the dropped ones."""
        kept = self.pages[:keep]
        self._buffer, self.pages, self.num_runs = self._buffer.copy(), [], 0
        self.extend(kept)

    def moves(self, base: int, steps: list[int], page_size: int) -> Moves:
        """Return the copies that bring logical slots base + steps[i] to base + i; steps increase strictly."""
        if not steps or steps[-1] == len(steps) - 1:
            return _NO_MOVES
        places = [index for index, step in enumerate(steps) if step != index]
        sources = self._flat([base + steps[index] for index in places], page_size)
        destinations = self._flat([base + index for index in places], page_size)
        slots = np.array((sources, destinations), dtype=np.int32)
        return Moves(sources=slots[0], destinations=slots[1])

    def _flat(self, slots: list[int], page_size: int) -> list[int]:
        pages = self.pages
        return [pages[slot // page_size] * page_size + slot % page_size for slot in slots]
