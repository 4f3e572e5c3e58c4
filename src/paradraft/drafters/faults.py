"""Faults of drafters that are made of others: a source that failed behind its own wall is counted at the top too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paradraft.core.faults import DrafterFaults, Walled


def walled_of(*drafters: object) -> tuple[Walled, ...]:
    """Return those of the drafters that count faults."""
    return tuple(drafter for drafter in drafters if isinstance(drafter, Walled))


def add_faults(parts: Sequence[DrafterFaults]) -> DrafterFaults:
    """Return the faults of all parts together; they rest together where each of them does."""
    by_kind: Counter[str] = Counter()
    for part in parts:
        by_kind.update(part.by_kind)
    return DrafterFaults(
        by_kind=by_kind,
        num_pauses=sum(part.num_pauses for part in parts),
        is_resting=bool(parts) and all(part.is_resting for part in parts),
    )


class FaultsOfParts:
    """What a drafter of several parts tells of their faults; `parts` are those that count any."""

    parts: Sequence[Walled] = ()

    @property
    def num_faults(self) -> int:
        """Return how often a part failed."""
        return sum([part.num_faults for part in self.parts])

    def faults(self) -> DrafterFaults:
        """Return the faults of all parts."""
        return add_faults([part.faults() for part in self.parts])
