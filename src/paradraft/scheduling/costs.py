"""What a pass costs by the number of tokens fed, learned from the passes themselves."""

from __future__ import annotations

from bisect import bisect_left, insort

SMOOTHING = 0.1  # weight of the newest measurement
WARM_UP = 3  # passes of a size before the average counts
MAX_TOKENS = 128  # larger passes are prefill, where no draft length is decided


class PassCosts:
    """Smoothed seconds of a pass for each number of fed tokens, interpolated between measured ones."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._passes: dict[int, int] = {}
        self._measured: list[int] = []

    def observe(self, num_tokens: int, seconds: float) -> None:
        """Learn that a pass over num_tokens tokens took this many seconds."""
        if num_tokens > MAX_TOKENS:
            return
        if num_tokens not in self._seconds:
            insort(self._measured, num_tokens)
            self._seconds[num_tokens] = seconds
        known = self._seconds[num_tokens]
        self._passes[num_tokens] = self._passes.get(num_tokens, 0) + 1
        if self._passes[num_tokens] <= WARM_UP:
            # The first passes of a size pay for memory and kernels that later ones find ready.
            self._seconds[num_tokens] = min(known, seconds)
            return
        # One stalled pass (another process, a page fault) must not look like a new price.
        self._seconds[num_tokens] = known + SMOOTHING * (min(seconds, 2 * known) - known)

    def seconds(self, num_tokens: int) -> float | None:
        """Return the expected seconds of a pass, None before anything was measured."""
        if not self._measured:
            return None
        right = bisect_left(self._measured, num_tokens)
        if right == len(self._measured):
            return self._seconds[self._measured[-1]]
        high = self._measured[right]
        if right == 0 or high == num_tokens:
            return self._seconds[high]
        low = self._measured[right - 1]
        share = (num_tokens - low) / (high - low)
        return self._seconds[low] + share * (self._seconds[high] - self._seconds[low])
