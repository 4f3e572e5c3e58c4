"""How likely the next levels of a row's draft are to stand: the row's own record, and the shape all rows share.

A level is tested if all levels before it stood. A fully accepted draft says that its levels were not refused, not how
the next would have fared, so only tested levels count.
"""

from __future__ import annotations

from collections.abc import Sequence

PRIOR_TESTS = 4.0  # tested levels of good will before a record counts
PRIOR_ACCEPTANCE = 0.7
ROW_MEMORY = 0.9  # weight of a row's past per round: text changes character
PROFILE_MEMORY = 0.99  # weight of a position's past per test
HIGHEST = 0.98  # no level is ever taken for certain


class Profile:
    """Acceptance by position over all rows of an engine."""

    def __init__(self) -> None:
        self._tested: list[float] = []
        self._stood: list[float] = []

    @property
    def mean(self) -> float:
        """Return the acceptance over all tested levels."""
        return (sum(self._stood) + PRIOR_TESTS * PRIOR_ACCEPTANCE) / (sum(self._tested) + PRIOR_TESTS)

    def count(self, *, tested: int, stood: int) -> None:
        """Learn of a round in which `tested` levels were tested and the first `stood` of them stood."""
        while len(self._tested) < tested:
            self._tested.append(0.0)
            self._stood.append(0.0)
        for at in range(tested):
            self._tested[at] = PROFILE_MEMORY * self._tested[at] + 1.0
            self._stood[at] = PROFILE_MEMORY * self._stood[at] + (at < stood)

    def by_position(self, depth: int) -> list[float]:
        """Return the acceptance of each position up to a depth; one that was seldom tested is like the one before."""
        found: list[float] = []
        before = PRIOR_ACCEPTANCE
        for at in range(depth):
            tested, stood = (self._tested[at], self._stood[at]) if at < len(self._tested) else (0.0, 0.0)
            before = (stood + PRIOR_TESTS * before) / (tested + PRIOR_TESTS)
            found.append(before)
        return found


class RowRecord:
    """A row's smoothed count of tested levels and of those that stood; begins as the other rows are."""

    def __init__(self, prior: float = PRIOR_ACCEPTANCE) -> None:
        self._tested = PRIOR_TESTS
        self._stood = PRIOR_TESTS * prior

    @property
    def acceptance(self) -> float:
        """Return the share of tested levels that stood."""
        return self._stood / self._tested

    def count(self, *, tested: int, stood: int) -> None:
        """Learn of a round in which `tested` levels were tested and the first `stood` of them stood."""
        self._tested = ROW_MEMORY * self._tested + tested
        self._stood = ROW_MEMORY * self._stood + stood

    def survival(self, profile: Profile, depth: int) -> list[float]:
        """Return the chance of each level up to a depth to stand with all before it."""
        scale = self.acceptance / max(profile.mean, 1e-6)
        return cumulative([min(value * scale, HIGHEST) for value in profile.by_position(depth)])


def cumulative(chances: Sequence[float]) -> list[float]:
    """Return the running products."""
    found: list[float] = []
    product = 1.0
    for chance in chances:
        product *= chance
        found.append(product)
    return found
