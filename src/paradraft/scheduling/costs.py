"""What a pass costs by the number of tokens fed, and drafting by its depth, learned from what was measured."""

from __future__ import annotations

MAX_TOKENS = 64  # larger passes are prefill, where no draft length is decided
NODE_COST = 0.05  # before measurements: of a plain pass, for each node
DRAFT_COST = 0.05  # before measurements: of a pass over one token, for feeding more than one at all
MEMORY = 0.98  # weight of the past per pass: machines change speed
DRAFT_MEMORY = 0.9  # the same for drafting, which also changes with the length of the texts
MIN_SPREAD = 0.5  # variance of the pass sizes that a slope can be read from


class PassCosts:
    """The price of a pass over one token, and a line through the prices of all larger ones.

    Decoding reads all weights whatever the number of tokens, and each token adds a little, so a line fits well from 2
    to 64 tokens. One token alone is cheaper than the line says: products with a vector take other kernels.
    """

    def __init__(self) -> None:
        self._sizes: set[int] = set()
        self._single = _Line()
        self._several = _Line()

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
        (self._single if num_tokens == 1 else self._several).add(num_tokens, bounded)

    def seconds(self, num_tokens: int) -> float | None:
        """Return the expected seconds of a pass, None before anything was measured."""
        if num_tokens == 1 and self._single.is_known:
            return self._single.at(1)
        if self._several.is_known:
            return self._several.at(num_tokens)
        if not self._single.is_known:
            return None
        return self._single.at(1) * (1.0 + DRAFT_COST + NODE_COST * (num_tokens - 1))

    def curve(self, num_tokens: int, count: int) -> list[float] | None:
        """Return the expected seconds with 0, 1 .. count nodes beside num_tokens tokens, None before measurements."""
        found = [self.seconds(num_tokens + nodes) for nodes in (0, 1, count)]
        plain, first, last = found
        if plain is None or first is None or last is None:
            return None
        # Behind the first node the prices lie on a line.
        step = (last - first) / max(count - 1, 1)
        return [plain, *(first + step * nodes for nodes in range(count))]

    def node_cost(self, num_tokens: int) -> float:
        """Return what one node more costs, as a share of a pass over num_tokens tokens."""
        slope, seconds = self._several.slope, self.seconds(num_tokens)
        return NODE_COST if slope is None or seconds is None else slope / seconds

    def draft_cost(self, num_tokens: int) -> float:
        """Return what the first node costs besides, as a share of a pass over num_tokens tokens."""
        if num_tokens > 1:
            return 0.0
        if not (self._single.is_known and self._several.is_known):
            return DRAFT_COST
        return max(self._several.at(1) / self._single.at(1) - 1.0, 0.0)


class DraftCosts:
    """What drafting itself takes by depth, beside the pass: a line through the times of proposals.

    A drafter reads along when nobody may draft, too; only what comes on top of that is the price of drafts.
    """

    def __init__(self) -> None:
        self._depths: set[int] = set()
        self._idle = _Line(DRAFT_MEMORY)
        self._drafting = _Line(DRAFT_MEMORY)

    def observe(self, depth: int, seconds: float) -> None:
        """Learn that proposing for a decoding batch whose deepest draft may have this depth (0: none) took so long."""
        if depth not in self._depths:
            self._depths.add(depth)  # the first call of a depth sets kernels up
            return
        line = self._drafting if depth else self._idle
        line.add(depth, min(seconds, 2 * line.at(depth)) if line.is_known else seconds)

    def seconds(self, depth: int) -> float:
        """Return what drafts of this depth cost, 0.0 before anything was measured."""
        if depth == 0 or not self._drafting.is_known:
            return 0.0
        idle = self._idle.at(0) if self._idle.is_known else 0.0
        return max(self._drafting.at(depth) - idle, 0.0)


class _Line:
    """A line by least squares, in which old points fade."""

    def __init__(self, memory: float = MEMORY) -> None:
        self._memory = memory
        self._weight = self._tokens = self._seconds = self._squares = self._products = 0.0

    @property
    def is_known(self) -> bool:
        return self._weight > 0.0

    @property
    def slope(self) -> float | None:
        """The seconds per token, at least 0; None while all passes have been of about one size."""
        if not self.is_known:
            return None
        mean_tokens = self._tokens / self._weight
        spread = self._squares / self._weight - mean_tokens * mean_tokens
        if spread < MIN_SPREAD:
            return None
        return max((self._products / self._weight - mean_tokens * self._seconds / self._weight) / spread, 0.0)

    def add(self, tokens: int, seconds: float) -> None:
        self._weight = self._memory * self._weight + 1.0
        self._tokens = self._memory * self._tokens + tokens
        self._seconds = self._memory * self._seconds + seconds
        self._squares = self._memory * self._squares + tokens * tokens
        self._products = self._memory * self._products + tokens * seconds

    def at(self, tokens: int) -> float:
        mean_tokens, mean_seconds = self._tokens / self._weight, self._seconds / self._weight
        slope = self.slope
        if slope is None:
            slope = NODE_COST * mean_seconds / (1.0 + NODE_COST * (mean_tokens - 1.0))
        # No pass is free, however far the line is drawn out.
        return max(mean_seconds + slope * (tokens - mean_tokens), 0.1 * mean_seconds)
