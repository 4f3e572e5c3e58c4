"""When the tokens of a stream are sent. Speculation finds several at once; a buffer can even that out, or hide it.

A pacer takes what has come and says what is due. It reads no clock: the stream tells it the time and asks when to be
woken. The text of a stream and its order never change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from paradraft.core.events import TokenEvent
from paradraft.server.options import RHYTHM, SPREAD, ServerOptions
from paradraft.server.token_events import joined, single_tokens

Numbered = list[tuple[int, TokenEvent]]  # each event with the number of its choice

_FORGETTING = 0.5  # weight of the past in the time between two bursts


class Pacer(Protocol):
    """Decides when events are sent. Times are seconds of one clock that never goes back."""

    padded_to: int  # what is sent at once is filled up to a multiple of so many bytes

    def take(self, events: Numbered, now: float) -> None:
        """Take events that have just come."""
        ...

    def due(self, now: float) -> Numbered | None:
        """Return what is to be sent now; None: nothing, not even a sign of life."""
        ...

    def wakes_at(self) -> float | None:
        """Return when something will be due if nothing more comes, None: never."""
        ...


def pacer_of(options: ServerOptions, now: float) -> Pacer:
    """Return the pacer of a stream that begins now."""
    seconds = options.smoothing_ms / 1000.0
    return _PACERS[options.smoothing](seconds, now) if seconds else Straight()


class Straight:
    """Sends at once."""

    padded_to = 1

    def __init__(self) -> None:
        self._waiting: Numbered = []

    def take(self, events: Numbered, now: float) -> None:  # noqa: ARG002 - the time changes nothing here
        """Keep the events for the next call of due."""
        self._waiting += events

    def due(self, now: float) -> Numbered | None:  # noqa: ARG002 - the same
        """Return all that has come."""
        due, self._waiting = self._waiting, []
        return due or None

    def wakes_at(self) -> float | None:
        """Return None: nothing is held back."""
        return None


@dataclass(slots=True)
class _Held:
    """A token that waits: when it has to be out at the latest, and when it is to be."""

    event: TokenEvent
    latest: float
    due: float


@dataclass(slots=True)
class _Lane:
    """One choice: what waits, when the last burst came, and how long it usually takes until the next."""

    held: deque[_Held] = field(default_factory=deque)
    came_at: float | None = None
    gap: float | None = None


class Spread:
    """Spreads a burst over the time until the next one is expected.

    A token waits for `bound` seconds at most, and nothing waits once its choice has ended, so answers end no later.
    Choices are paced apart. Before two bursts have come there is nothing to go by, and nothing is held.
    """

    padded_to = 1

    def __init__(self, bound: float, now: float) -> None:
        del now
        self._bound = bound
        self._lanes: dict[int, _Lane] = {}

    def take(self, events: Numbered, now: float) -> None:
        """Plan the tokens of a burst, together with those of the choice that still wait."""
        for number, event in events:
            lane = self._lanes.setdefault(number, _Lane())
            self._learn(lane, now)
            lane.held += [_Held(each, now + self._bound, now) for each in single_tokens(event)]
            step = (lane.gap or 0.0) / len(lane.held) if event.finish_reason is None else 0.0
            for place, held in enumerate(lane.held):
                held.due = min(now + place * step, held.latest)

    def due(self, now: float) -> Numbered | None:
        """Return the tokens whose time has come, choice by choice."""
        found: Numbered = []
        for number, lane in self._lanes.items():
            ready: list[TokenEvent] = []
            while lane.held and lane.held[0].due <= now:
                ready.append(lane.held.popleft().event)
            if ready:
                found.append((number, joined(ready)))
        return found or None

    def wakes_at(self) -> float | None:
        """Return when the next token is due."""
        return min((lane.held[0].due for lane in self._lanes.values() if lane.held), default=None)

    def _learn(self, lane: _Lane, now: float) -> None:
        if lane.came_at is not None:
            gap = min(now - lane.came_at, self._bound)
            lane.gap = gap if lane.gap is None else _FORGETTING * lane.gap + (1.0 - _FORGETTING) * gap
        lane.came_at = now


class Rhythm:
    """Sends whatever has come at a fixed beat, and something at every beat, filled up to a multiple of one size.

    When a packet leaves, and how long it is, tells onlookers of an encrypted connection how many tokens were found at
    once, and so what speculation guessed right (arXiv 2411.01076). At a fixed beat neither follows from single tokens;
    how long the whole answer is, and how long it took, still shows.
    """

    padded_to = 1024

    def __init__(self, beat: float, now: float) -> None:
        self._beat = beat
        self._next = now + beat
        self._waiting: dict[int, list[TokenEvent]] = {}

    def take(self, events: Numbered, now: float) -> None:  # noqa: ARG002 - the beat does not follow what comes
        """Keep the events until the next beat."""
        for number, event in events:
            self._waiting.setdefault(number, []).append(event)

    def due(self, now: float) -> Numbered | None:
        """Return what has come since the last beat, one event for each choice; None between beats."""
        if now < self._next:
            return None
        # A beat that was missed is left out, so that the rhythm does not follow from how long something took.
        self._next += self._beat * (1 + int((now - self._next) / self._beat))
        due = [(number, joined(events)) for number, events in self._waiting.items()]
        self._waiting = {}
        return due

    def wakes_at(self) -> float | None:
        """Return the next beat."""
        return self._next


_PACERS: Mapping[str, Callable[[float, float], Pacer]] = MappingProxyType({SPREAD: Spread, RHYTHM: Rhythm})
