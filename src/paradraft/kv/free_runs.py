"""The free pages, as runs of consecutive page numbers. Every operation costs the same in a small and a large pool."""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class FreeRuns:
    """Maximal runs [low, high) of free pages; neighbours are merged when pages come back."""

    def __init__(self, num_pages: int) -> None:
        self.count = 0
        self._high_of: dict[int, int] = {}
        self._low_of: dict[int, int] = {}
        # Entries (-length, low); one that no longer names a run is dropped when it comes up.
        self._by_length: list[tuple[int, int]] = []
        self.add(0, num_pages)

    def add(self, low: int, high: int) -> None:
        """Make the pages low .. high-1 free; none of them is."""
        self.count += high - low
        before = self._low_of.pop(low, None)
        if before is not None:
            low = before
        behind = self._high_of.pop(high, None)
        if behind is not None:
            high = behind
        self._record(low, high)

    def length_at(self, low: int) -> int:
        """Return the length of the run that begins at this page, 0 if none does."""
        high = self._high_of.get(low)
        return 0 if high is None else high - low

    def largest(self) -> tuple[int, int]:
        """Return the bounds of the longest run, the lowest one on ties; at least one page is free."""
        while True:
            length, low = self._by_length[0]
            if self._high_of.get(low) == low - length:
                return low, low - length
            heappop(self._by_length)

    def cut(self, run: int, low: int, high: int) -> None:
        """Take the pages low .. high-1 out of the run that begins at `run`."""
        end = self._high_of.pop(run)
        del self._low_of[end]
        self.count -= high - low
        if run < low:
            self._record(run, low)
        if high < end:
            self._record(high, end)

    def runs(self) -> list[tuple[int, int]]:
        """Return all runs in page order."""
        return sorted(self._high_of.items())

    def _record(self, low: int, high: int) -> None:
        self._high_of[low] = high
        self._low_of[high] = low
        heappush(self._by_length, (low - high, low))
        if len(self._by_length) > 4 * len(self._high_of) + 64:
            self._by_length = [(start - end, start) for start, end in self._high_of.items()]
            heapify(self._by_length)
