"""Label values that come from outside: short, plain, and no more of them than were agreed on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

UNNAMED = "unnamed"
OTHER = "other"  # all values together that came after the last free place was taken
MAX_LENGTH = 64

_ALWAYS = (UNNAMED, OTHER)  # whoever uses up the places takes these from nobody

_ODD = re.compile(r"[^A-Za-z0-9_.:/+-]")


def plain_label(value: str) -> str:
    """Return the value with odd characters replaced, cut to MAX_LENGTH; UNNAMED for an empty one."""
    return _ODD.sub("_", value[:MAX_LENGTH]) or UNNAMED


class BoundedLabels:
    """Hands out at most `most` different values, first come, first served, and UNNAMED and OTHER besides.

    Values keep their meaning as long as the process runs, or the counters of a value would fall.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def value_of(self, label: str) -> str:
        """Return the value that stands for a label."""
        value = plain_label(label)
        if value in self._known or value in _ALWAYS:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value

    def sums(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return counts by value."""
        found: Counter[str] = Counter()
        for label, count in counts.items():
            found[self.value_of(label)] += count
        return dict(found)
