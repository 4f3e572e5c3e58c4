"""Where the logical indices of one row lie in the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from paradraft.core.arrays import IntArray, ints
from paradraft.core.records import Batch
from paradraft.models.kv_store import Slots


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SlotTable:
    """The pages of a row; consecutive pages make every stretch of it a run."""

    pages: IntArray
    page_size: int
    is_run: bool

    @staticmethod
    def of(batch: Batch, row: int, num_keys: int) -> SlotTable:
        """Return the table of a row's first num_keys logical indices."""
        size = batch.page_size
        pages = batch.page_table(row)[: -(-num_keys // size)]
        spread = int(pages[-1]) - int(pages[0])
        is_run = spread == len(pages) - 1 and bool((pages[1:] > pages[:-1]).all())
        return SlotTable(pages=pages, page_size=size, is_run=is_run)

    def numbers(self, first: int, stop: int) -> IntArray:
        """Return the slot numbers of logical indices first .. stop."""
        logical = np.arange(first, stop, dtype=np.int32)
        return ints(self.pages[logical // self.page_size] * self.page_size + logical % self.page_size)

    def slots(self, first: int, stop: int, device: torch.device) -> Slots:
        """Return the slots of logical indices first .. stop."""
        if self.is_run:
            return Slots(first=int(self.pages[0]) * self.page_size + first, count=stop - first)
        return Slots.of(self.numbers(first, stop), device)
