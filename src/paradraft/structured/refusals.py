"""Grammars that were refused, and why, so that asking again costs nothing."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from paradraft.core.errors import RequestRefused
from paradraft.core.grammar import Grammar
from paradraft.core.ports import Clock

# A grammar near the limits may have met a machine that was out of memory or stood still: it gets another chance.
KEPT_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Refusal:
    problem: str
    remedy: str
    until: float


class Refusals:
    """Keeps the `capacity` last refusals for KEPT_SECONDS. Not safe for several threads: its owner sees to that."""

    def __init__(self, capacity: int, *, clock: Clock = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._known: OrderedDict[Grammar, _Refusal] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of refusals that are kept."""
        return len(self._known)

    def add(self, grammar: Grammar, error: RequestRefused) -> None:
        """Keep why a grammar was refused."""
        until = self._clock() + KEPT_SECONDS
        # The words alone: an error that is raised twice keeps what each raise passed through.
        self._known[grammar] = _Refusal(problem=error.problem, remedy=error.remedy, until=until)
        self._known.move_to_end(grammar)
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def check(self, grammar: Grammar) -> None:
        """Raise RequestRefused for a grammar whose refusal is kept."""
        known = self._known.get(grammar)
        if known is None:
            return
        if self._clock() >= known.until:
            del self._known[grammar]
            return
        self._known.move_to_end(grammar)
        raise RequestRefused(known.problem, remedy=known.remedy)
