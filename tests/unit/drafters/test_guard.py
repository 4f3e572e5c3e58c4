from __future__ import annotations

from paradraft.core.arrays import ints
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.drafters.guard import GuardedDrafter
from support.drafting import RowText, batch_for, forget_all, plan_for, verdict_of
from support.fake_drafters import BrokenDrafter, FakeDrafter
from support.speakers import ManualClock

BATCH = batch_for(RowText(tokens=[1, 2, 3]))
PLAN = plan_for(BATCH, 2)


class Moody(FakeDrafter):
    """Fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = True
        self.num_calls = 0

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        self.num_calls += 1
        if self.is_broken:
            raise OSError("no mood")
        return Proposal.chains([ints([5])] * batch.num_rows)


def test_an_exception_costs_the_drafts_and_is_counted_with_its_reason() -> None:
    guard = GuardedDrafter(BrokenDrafter(), vocab_size=64)
    assert len(guard.propose(BATCH, PLAN).tokens) == 0
    assert guard.failures == {"ZeroDivisionError": 1}
    assert guard.last_reason == "ZeroDivisionError: broken on purpose"


def test_observing_and_forgetting_are_guarded_too() -> None:
    guard = GuardedDrafter(BrokenDrafter(), vocab_size=64)
    guard.observe(BATCH, Proposal.empty(1), None, verdict_of(([], [4])))
    forget_all(guard, 0)
    assert guard.failures["ZeroDivisionError"] == 2


def test_good_proposals_pass_untouched() -> None:
    inner = Moody()
    inner.is_broken = False
    guard = GuardedDrafter(inner, vocab_size=64)
    assert guard.propose(BATCH, PLAN).tokens.tolist() == [5]
    assert not guard.failures
    assert guard.needs is inner.needs


def test_ids_outside_the_vocabulary_are_dropped_as_ids() -> None:
    inner = Moody()
    inner.is_broken = False
    guard = GuardedDrafter(inner, vocab_size=5)
    assert len(guard.propose(BATCH, PLAN).tokens) == 0
    assert guard.failures == {"ids": 1}
    assert guard.last_reason is not None
    assert "vocabulary" in guard.last_reason


def test_repeated_failures_rest_the_drafter_and_it_is_tried_again_later() -> None:
    clock, inner = ManualClock(), Moody()
    guard = GuardedDrafter(inner, vocab_size=64, max_failures=3, pause_seconds=5.0, clock=clock)
    for _ in range(10):
        guard.propose(BATCH, PLAN)
    assert (inner.num_calls, guard.num_pauses, guard.is_resting) == (3, 1, True)
    clock.now = 5.0
    for _ in range(10):
        guard.propose(BATCH, PLAN)
    assert (inner.num_calls, guard.num_pauses) == (4, 2)
    clock.now, inner.is_broken = 10.0, False
    assert guard.propose(BATCH, PLAN).tokens.tolist() == [5]
    inner.is_broken = True
    guard.propose(BATCH, PLAN)
    assert not guard.is_resting


def test_single_failures_do_not_add_up() -> None:
    inner = Moody()
    guard = GuardedDrafter(inner, vocab_size=64, max_failures=2, clock=ManualClock())
    for turn in range(20):
        inner.is_broken = turn % 2 == 0
        guard.propose(BATCH, PLAN)
    assert guard.num_pauses == 0
    assert guard.failures == {"OSError": 10}


def test_a_resting_drafter_still_hears_of_rows_that_end() -> None:
    inner = Moody()
    guard = GuardedDrafter(inner, vocab_size=64, max_failures=1, clock=ManualClock())
    guard.propose(BATCH, PLAN)
    forget_all(guard, 0, 3)
    assert inner.forgotten == [0, 3]
