"""Whether a source that costs a pass is worth asking, for a row whose free sources already expect so much.

What asking brings is measured where it was asked: the tokens that stood, less those that the free sources' own draft
would have had standing before the same tokens of the target, less the price of nodes more. So every asked row tells
both outcomes, and none is guessed. Rows are classed by what their free draft expects: where much is expected there is
little to add. What asking takes is measured in seconds, and is worth the tokens that a second has brought lately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

EDGES = (1.3, 1.6, 2.0, 2.5, 3.2, 4.2)  # expected tokens at which classes of rows begin
HOPE, HOPE_WEIGHT = 0.6, 6.0  # tokens that asking is taken to bring at first, and so many rows' word for it
MEMORY = 0.99  # weight of the past per row of a class: texts change
STEP_MEMORY = 0.98  # the same for seconds: machines change speed
PROBE_EVERY, MOST_DOUBLINGS = 32, 3  # rows passed over until one is asked all the same; doubled while that is in vain
PROBE_MEMORY = 0.8  # weight of the past per probe, which stands for all rows passed over
MOST_STALL = 2.0  # times the usual: one stalled pass must not look like a new price


@dataclass(frozen=True, slots=True)
class Class:
    """Rows that are alike: whether they have a temperature, and how much their free draft expects."""

    is_warm: bool
    level: int


def class_of(expected: float, *, is_warm: bool) -> Class:
    """Return the class of a row whose free draft is expected to bring so many tokens."""
    return Class(is_warm, bisect_right(EDGES, expected))


class Worth:
    """Decides whom to ask. Changes only by what it is told; given the same it decides the same."""

    def __init__(self) -> None:
        self._gains: dict[Class, _Gain] = {}
        self._seconds: dict[int, _Mean] = {}
        self._tokens, self._lasted = _Mean(), _Mean()
        self._has_begun = False

    def choose(self, classes: Sequence[Class | None]) -> list[bool]:
        """Return which rows to ask, None being one that may not draft.

        One round serves them all, so the rows with the most to gain are asked, as many as together bring the most.
        """
        gains = {at: self._gain(kind) for at, kind in enumerate(classes) if kind is not None}
        best = sorted(gains, key=lambda at: -gains[at].mean)
        value, highest, count = 0.0, 0.0, 0
        for number, at in enumerate(best, start=1):
            value += gains[at].mean
            net = value - self.cost(number)
            if net > highest:
                highest, count = net, number
        asked = set(best[:count])
        for at in best:
            if gains[at].settle(is_worth=at in asked):
                asked.add(at)
        return [at in asked for at in range(len(classes))]

    def cost(self, num_rows: int) -> float:
        """Return the tokens that would have come in the time that asking so many rows takes; 0 before it is known."""
        known = [size for size, seconds in self._seconds.items() if seconds.weight]
        if not known or not self._lasted.weight:
            return 0.0
        near = min(known, key=lambda size: (abs(size - num_rows.bit_length()), size))
        return self._seconds[near].value * self._tokens.value / self._lasted.value

    def gain(self, kind: Class) -> float:
        """Return the tokens that asking brings to a row of the class."""
        return self._gain(kind).mean

    def note_round(self, num_rows: int, seconds: float) -> None:
        """Learn what a round over so many rows took. The first of each size sets kernels up, and tells nothing."""
        size = num_rows.bit_length()
        if size in self._seconds:
            self._seconds[size].add_time(seconds)
        else:
            self._seconds[size] = _Mean()

    def note_step(self, num_tokens: int, seconds: float) -> None:
        """Learn what a whole step brought and took, but for the first, which sets kernels up."""
        if self._has_begun:
            self._tokens.add(num_tokens, STEP_MEMORY)
            self._lasted.add_time(seconds)
        self._has_begun = True

    def note_gain(self, kind: Class, tokens: float) -> None:
        """Learn what asking brought to a row of the class."""
        self._gain(kind).add(tokens)

    def _gain(self, kind: Class) -> _Gain:
        return self._gains.setdefault(kind, _Gain())


@dataclass(slots=True)
class _Mean:
    """A mean that forgets: of the first values as such, later with the memory's weight."""

    value: float = 0.0
    weight: float = 0.0

    def add(self, value: float, memory: float) -> None:
        self.weight = memory * self.weight + 1.0
        self.value += (value - self.value) / self.weight

    def add_time(self, seconds: float) -> None:
        self.add(min(seconds, MOST_STALL * self.value) if self.weight else seconds, STEP_MEMORY)


class _Gain:
    """What asking brings to rows of a class, and how long they have been passed over."""

    __slots__ = ("_passed", "_told", "_vain")

    def __init__(self) -> None:
        self._told = _Mean(HOPE, HOPE_WEIGHT)
        self._passed = self._vain = 0

    @property
    def mean(self) -> float:
        return self._told.value

    def add(self, tokens: float) -> None:
        self._told.add(tokens, MEMORY)

    def settle(self, *, is_worth: bool) -> bool:
        """Count a row that is asked or passed over; whether one that is passed over is to be asked as a probe."""
        if is_worth:
            self._passed = self._vain = 0
            return False
        self._passed += 1
        if self._passed < PROBE_EVERY << self._vain:
            return False
        self._passed, self._vain = 0, min(self._vain + 1, MOST_DOUBLINGS)
        self._told.weight *= PROBE_MEMORY
        return True
