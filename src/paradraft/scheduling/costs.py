"""What a pass costs by the number of tokens fed, learned from the passes themselves."""

from __future__ import annotations

MAX_TOKENS = 64  # larger passes are prefill, where no draft length is decided
NODE_COST = 0.05  # before measurements: of a plain pass, for each token more
MEMORY = 0.99  # weight of the past per pass: machines change speed
MIN_SPREAD = 0.5  # variance of the pass sizes that a slope can be read from


class PassCosts:
    """A line through (tokens, seconds) by least squares, in which old passes fade.

    Decoding reads all weights whatever the number of tokens, and each token adds a little: a line fits that well
    from 1 to 64 tokens.
    """

    def __init__(self) -> None:
        self._sizes: set[int] = set()
        self._weight = self._tokens = self._seconds = self._squares = self._products = 0.0

    def observe(self, num_tokens: int, seconds: float) -> None:
        """Learn that a pass over num_tokens tokens took this many seconds."""
        if num_tokens > MAX_TOKENS:
            return
        if num_tokens not in self._sizes:
            self._sizes.add(num_tokens)  # the first pass of a size sets kernels up, and tells nothing of the next
            return
        expected = self.seconds(num_tokens)
        # One stalled pass (another process, a page fault) must not look like a new price.
        bounded = seconds if expected is None else min(seconds, 2 * expected)
        self._weight = MEMORY * self._weight + 1.0
        self._tokens = MEMORY * self._tokens + num_tokens
        self._seconds = MEMORY * self._seconds + bounded
        self._squares = MEMORY * self._squares + num_tokens * num_tokens
        self._products = MEMORY * self._products + num_tokens * bounded

    def seconds(self, num_tokens: int) -> float | None:
        """Return the expected seconds of a pass, None before anything was measured."""
        if not self._weight:
            return None
        mean_tokens, mean_seconds = self._tokens / self._weight, self._seconds / self._weight
        slope = self._slope()
        if slope is None:
            slope = NODE_COST * mean_seconds / (1.0 + NODE_COST * (mean_tokens - 1.0))
        # No pass is free, however far the line is drawn out.
        return max(mean_seconds + slope * (num_tokens - mean_tokens), 0.1 * mean_seconds)

    def node_cost(self, num_tokens: int) -> float:
        """Return what one token more costs, as a share of a pass over num_tokens tokens."""
        slope, seconds = self._slope(), self.seconds(num_tokens)
        return NODE_COST if slope is None or seconds is None else slope / seconds

    def _slope(self) -> float | None:
        """Return the seconds per token, at least 0; None while all passes have been of about one size."""
        if not self._weight:
            return None
        mean_tokens = self._tokens / self._weight
        spread = self._squares / self._weight - mean_tokens * mean_tokens
        if spread < MIN_SPREAD:
            return None
        shared = self._products / self._weight - mean_tokens * self._seconds / self._weight
        return max(shared / spread, 0.0)
