"""What the engine does from second to second, for pages that draw it: one snapshot however many look."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anyio import to_thread

from paradraft.core.ports import Clock
from paradraft.core.serving import EngineSnapshot, Service

PERIOD = 1.0  # seconds between two snapshots, at least
KEPT = 120  # samples that a new viewer is shown
_LONGEST = 5.0  # seconds; the mean of a longer time in which nobody looked would pass for what happens now
_VERBS = ("propose", "score", "accept", "observe")
Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What happened between two snapshots, and what the engine held at the second."""

    number: int  # from 1
    at: float  # seconds on a clock that only runs forward, of the second snapshot
    seconds: float  # since the first one
    tokens: int
    steps: int
    running: int
    waiting: int
    pages_held: int
    pages_total: int
    drafted: tuple[int, ...]  # drafts that reached each position
    accepted: tuple[int, ...]  # of these, accepted there
    gammas: Mapping[int, int]  # depth planned -> times
    verbs: Mapping[str, float]  # seconds of each verb; `other` is what is left of the steps


class LiveFeed:
    """Keeps the samples of the last minutes. Takes snapshots only when somebody looks, and never two in a period."""

    def __init__(self, service: Service, *, clock: Clock = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._number = 0
        self._last: EngineSnapshot | None = None
        self._taken_at = 0.0
        self._asked_at = -PERIOD
        self._turn = asyncio.Lock()

    async def after(self, number: int) -> list[Sample]:
        """Return the samples behind this number; all that are kept where it belongs to an earlier server."""
        async with self._turn:  # who comes while a snapshot is taken waits for it and takes none
            if self._clock() - self._asked_at >= PERIOD:
                self._asked_at = self._clock()
                self._take(await to_thread.run_sync(self._service.snapshot))
        return [sample for sample in self._samples if sample.number > number or number > self._number]

    def _take(self, snapshot: EngineSnapshot) -> None:
        if snapshot is self._last:  # the engine is within a long step: the next sample spans it
            return
        now = self._clock()
        seconds = now - self._taken_at
        if self._last is not None and 0 < seconds <= _LONGEST:
            self._number += 1
            self._samples.append(sample_of(self._last, snapshot, number=self._number, at=now, seconds=seconds))
        self._last, self._taken_at = snapshot, now


def sample_of(before: EngineSnapshot, after: EngineSnapshot, *, number: int, at: float, seconds: float) -> Sample:
    """Return what happened between two snapshots that are so many seconds apart, the second taken at `at`."""
    verbs = _grown(before.seconds, after.seconds)
    step = verbs.get("step", 0.0)
    told = {verb: verbs.get(verb, 0.0) for verb in _VERBS}
    return Sample(
        number=number,
        at=at,
        seconds=seconds,
        tokens=after.committed - before.committed,
        steps=after.steps - before.steps,
        running=after.running,
        waiting=after.waiting,
        pages_held=after.pages_held,
        pages_total=after.pages_total,
        drafted=_levels_grown(before.counts.drafted_by_depth, after.counts.drafted_by_depth),
        accepted=_levels_grown(before.counts.accepted_by_depth, after.counts.accepted_by_depth),
        gammas={depth: int(times) for depth, times in _grown(before.gammas, after.gammas).items() if times},
        verbs={**told, "other": max(0.0, step - sum(told.values()))},
    )


def _grown(before: Mapping[Key, float], after: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value - before.get(key, 0) for key, value in after.items()}


def _levels_grown(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    earlier = (*before, *[0] * (len(after) - len(before)))
    return tuple(now - then for now, then in zip(after, earlier, strict=True))
