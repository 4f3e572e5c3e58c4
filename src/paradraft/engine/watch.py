"""The times of one choice, by the engine's clock."""

from __future__ import annotations

from paradraft.core.events import ChoiceTimes
from paradraft.core.ports import Clock


class ChoiceWatch:
    """Starts when a choice is queued; notes its first row and its first token. A preemption changes neither."""

    __slots__ = ("_admitted", "_clock", "_first", "_queued")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queued = clock()
        self._admitted: float | None = None
        self._first: float | None = None

    def note_admission(self) -> bool:
        """Note that the choice got a row, and return whether that is its first one."""
        if self._admitted is not None:
            return False
        self._admitted = self._clock()
        return True

    def note_tokens(self) -> None:
        """Note that the choice got tokens."""
        if self._first is None:
            self._first = self._clock()

    def read(self) -> ChoiceTimes:
        """Return the times of a choice that ends now."""
        now = self._clock()
        if self._admitted is None:
            return ChoiceTimes(queued=now - self._queued)
        queued = self._admitted - self._queued
        if self._first is None:
            return ChoiceTimes(queued=queued)
        return ChoiceTimes(queued=queued, prefill=self._first - self._admitted, decode=now - self._first)
