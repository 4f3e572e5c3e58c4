"""Samples of an engine for pages: their arithmetic, and what they cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from paradraft.core.events import GenerationStats
from paradraft.core.serving import EngineSnapshot
from paradraft.server.live import KEPT, LiveFeed, sample_of


class Counted:
    """A service whose engine commits ten tokens between two snapshots."""

    def __init__(self) -> None:
        self.taken = 0
        self.is_stuck = False
        self._last = EngineSnapshot()

    def snapshot(self, timeout: float = 1.0) -> EngineSnapshot:
        self.taken += 1
        if not self.is_stuck:
            self._last = EngineSnapshot(committed=10 * self.taken, steps=self.taken)
        return self._last


class Watch:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def feed() -> tuple[LiveFeed, Counted, Watch]:
    service, watch = Counted(), Watch()
    return LiveFeed(service, clock=watch), service, watch


def test_a_sample_is_what_happened_between_two_snapshots():
    before = EngineSnapshot(
        committed=100,
        steps=10,
        gammas={0: 2, 3: 5},
        counts=GenerationStats(drafted_by_depth=(8, 4), accepted_by_depth=(5, 1)),
    )
    after = replace(
        before,
        committed=160,
        steps=30,
        running=2,
        waiting=1,
        gammas={0: 2, 3: 9, 7: 1},
        counts=GenerationStats(drafted_by_depth=(10, 6, 2), accepted_by_depth=(6, 3, 1)),
    )
    sample = sample_of(before, after, number=4, at=9.0, seconds=2.0)
    assert (sample.number, sample.at, sample.seconds, sample.tokens, sample.steps) == (4, 9.0, 2.0, 60, 20)
    assert (sample.running, sample.waiting) == (2, 1)
    assert (sample.drafted, sample.accepted) == ((2, 2, 2), (1, 2, 1))
    assert sample.gammas == {3: 4, 7: 1}
    assert set(sample.verbs) == {"propose", "score", "accept", "observe", "other"}


def test_many_viewers_cost_one_snapshot_a_period():
    live, service, watch = feed()

    async def look() -> list[list[int]]:
        await asyncio.gather(*(live.after(0) for _ in range(50)))
        watch.now += 1.0
        views = await asyncio.gather(*(live.after(0) for _ in range(50)))
        return [[sample.tokens for sample in view] for view in views]

    assert asyncio.run(look()) == [[10]] * 50
    assert service.taken == 2


def test_a_viewer_is_told_what_it_has_not_seen():
    live, _, watch = feed()

    async def look() -> list[list[int]]:
        numbers = []
        for seen in (0, 0, 1, 2, 99):
            numbers.append([sample.number for sample in await live.after(seen)])
            watch.now += 1.0
        return numbers

    assert asyncio.run(look()) == [[], [1], [2], [3], [1, 2, 3, 4]], "99 is of a server that ran before"


def test_no_more_than_the_last_minutes_are_kept():
    live, _, watch = feed()

    async def look() -> list[int]:
        for _ in range(KEPT + 5):
            await live.after(0)
            watch.now += 1.0
        return [sample.number for sample in await live.after(0)]

    numbers = asyncio.run(look())
    assert (len(numbers), numbers[-1]) == (KEPT, KEPT + 5)


def test_time_in_which_nobody_looked_is_no_sample():
    live, _, watch = feed()

    async def look() -> list[float]:
        await live.after(0)
        watch.now += 3600.0
        await live.after(0)
        watch.now += 2.0
        return [sample.seconds for sample in await live.after(0)]

    assert asyncio.run(look()) == [2.0]


def test_a_step_longer_than_a_period_is_spanned_by_one_sample():
    live, service, watch = feed()

    async def look() -> list[tuple[float, int]]:
        await live.after(0)
        service.is_stuck = True
        watch.now += 1.0
        await live.after(0)
        service.is_stuck = False
        watch.now += 1.0
        return [(sample.seconds, sample.tokens) for sample in await live.after(0)]

    assert asyncio.run(look()) == [(2.0, 20)]
