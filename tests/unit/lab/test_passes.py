"""Passes timed on a target whose passes take what they are told to."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.records import Batch, Proposal
from paradraft.lab.bench.passes import CONTEXT, measure_passes
from support.engines import LAW, VOCAB
from support.stub_target import StubTarget, StubTicket


class TimedTarget(StubTarget):
    """A pass takes a second and a hundredth for each token; the first of each size takes far longer."""

    def __init__(self, num_pages: int = 96) -> None:
        super().__init__(LAW, vocab_size=VOCAB, num_pages=num_pages, page_size=4)
        self.now = 0.0
        self.sizes: list[int] = []

    def submit(self, batch: Batch, proposal: Proposal) -> StubTicket:
        size = len(batch.tokens) + len(proposal.tokens)
        self.now += (1.0 if size in self.sizes else 50.0) + 0.01 * size
        self.sizes.append(size)
        return super().submit(batch, proposal)


def test_sizes_take_turns_and_the_first_round_does_not_count() -> None:
    target, told = TimedTarget(), []
    costs = measure_passes(
        target, [1, 8, 4], rounds=3, progress=lambda done, total: told.append((done, total)), clock=lambda: target.now
    )
    assert target.sizes == [CONTEXT, *[1, 8, 4] * 4]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [cost.tokens for cost in costs] == [1, 8, 4]
    for cost, expected in zip(costs, (1010.0, 1080.0, 1040.0), strict=True):
        time = cost.milliseconds
        assert (time.median, time.min, time.max) == pytest.approx((expected,) * 3)


def test_a_pass_needs_room_behind_the_context() -> None:
    with pytest.raises(ConfigError, match="A pass over 129 tokens behind 256 does not fit: there is room for 384"):
        measure_passes(TimedTarget(), [1, 129], rounds=1, progress=lambda done, total: None)
