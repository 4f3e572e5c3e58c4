"""The cache reuse ratio, and how much of the pool published prefixes may keep because of it.

The ratio of a step is the positions its rows read in pages they took over by prefix (from another row or
from the cache) over all positions they read; a row reads its committed and its staged positions once.

The share governs retention. Published pages, held or cached, may make up this share of the pool; when they
are more, the least recently used cached ones are evicted at once, so the rest of the pool stays free, and in
long runs, for private slices. It never refuses anything: a row that needs pages may still take every cached one.
"""

from __future__ import annotations

USUAL_SHARE = 0.80
RAISED_SHARE = 0.85
LOW_RATIO = 0.65
STEPS_IN_A_ROW = 5


class ReuseMeter:
    """Counts positions read and sets the share of the pool for published prefixes.

    The share rises after STEPS_IN_A_ROW steps in a row with a ratio under LOW_RATIO, to keep prefixes longer
    where they are found too rarely, and goes back after as many steps in a row at or above it.
    """

    def __init__(self) -> None:
        self.share = USUAL_SHARE
        self.last = 0.0
        self._shared = self._read = 0
        self._total_shared = self._total_read = 0
        self._against = 0  # steps in a row that speak against the present share

    @property
    def ratio(self) -> float:
        """Return the cache reuse ratio since the start, 0.0 before anything was read."""
        read = self._total_read + self._read
        return (self._total_shared + self._shared) / read if read else 0.0

    @property
    def positions(self) -> tuple[int, int]:
        """Return the positions read since the start, those in pages taken over first and then all."""
        return self._total_shared + self._shared, self._total_read + self._read

    def read(self, shared: int, positions: int) -> None:
        """Note that a row reads this many positions in this step, `shared` of them in pages it took over."""
        self._shared += shared
        self._read += positions

    def end_step(self) -> float:
        """Close the step and return its ratio; a step that read nothing is none and gives the last one's."""
        if self._read:
            self.last = self._shared / self._read
            self._total_shared += self._shared
            self._total_read += self._read
            self._shared = self._read = 0
            self._judge()
        return self.last

    def _judge(self) -> None:
        wanted = RAISED_SHARE if self.last < LOW_RATIO else USUAL_SHARE
        self._against = self._against + 1 if wanted != self.share else 0
        if self._against == STEPS_IN_A_ROW:
            self.share, self._against = wanted, 0
