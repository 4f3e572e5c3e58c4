"""Work in units that can be done in any order by several processes that do not talk to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paradraft.core.errors import ConfigError
from paradraft.train.ports import Progress


@dataclass(frozen=True, slots=True)
class Share:
    """Which of several processes this is, from 0."""

    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        """Raise ConfigError if the part is none of the parts."""
        if not 0 <= self.part < self.parts:
            raise ConfigError(
                f"Part {self.part} of {self.parts} does not exist.", remedy="Count parts from 0, like 0/2 and 1/2."
            )

    def missing(self, count: int, is_done: Callable[[int], bool], progress: Progress) -> Iterator[int]:
        """Yield the units of 0 .. count-1 that are not done when their turn comes: this part's own, then all others.

        Two processes may end up with one unit. They make the same of it, so that costs time and nothing else.
        """
        order = sorted(range(count), key=lambda number: (number % self.parts != self.part, number))
        for at, number in enumerate(order):
            progress(at, count)
            if not is_done(number):
                yield number
        progress(count, count)
