"""What breaks, what is left, and that the others never notice."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.events import TokenEvent
from paradraft.core.records import FinishReason
from paradraft.drafters.guard import GuardedDrafter
from support.engines import GREEDY, LAW, VOCAB, answer, build_engine, ids_of, request, run
from support.fake_drafters import BrokenDrafter, HalfRightDrafter, OracleDrafter, RandomTreeDrafter
from support.stub_target import continue_plainly

PROMPT = [3, 1, 4, 1, 5]


def poisoned(prefix: tuple[int, ...]) -> FloatArray:
    """Not a number for prompts that begin with token 63."""
    logits = LAW(prefix)
    return np.full_like(logits, np.nan) if prefix[0] == 63 else logits


def test_a_row_whose_logits_are_not_numbers_fails_alone() -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB), law=poisoned)
    events = run(engine, request("bad", [63, 1, 2]), request("good", PROMPT))
    assert events["bad", 0][-1].finish_reason is FinishReason.ERROR
    assert events["bad", 0][-1].error
    good = continue_plainly(LAW, PROMPT, 24)
    assert ids_of(events["good", 0]) == good
    assert engine.pages.counts().held == 0


def test_a_pass_that_fails_ends_its_rows_with_an_error_and_later_requests_are_served() -> None:
    calls = 0

    def law(prefix: tuple[int, ...]) -> FloatArray:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise RuntimeError("out of memory")
        return LAW(prefix)

    engine = build_engine(law=law)
    events = run(engine, request("a", PROMPT), request("b", PROMPT[::-1]))
    assert {events[name, 0][-1].finish_reason for name in ("a", "b")} == {FinishReason.ERROR}
    assert "out of memory" in (events["a", 0][-1].error or "")
    assert engine.pages.counts().held == 0
    assert answer(engine, PROMPT) == continue_plainly(LAW, PROMPT, 24)


def test_a_drafter_that_raises_everywhere_costs_only_its_drafts() -> None:
    guarded = GuardedDrafter(BrokenDrafter(), vocab_size=VOCAB)
    engine = build_engine(guarded)
    assert answer(engine, PROMPT) == continue_plainly(LAW, PROMPT, 24)


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_an_aborted_request_frees_its_pages_at_once(steps: int) -> None:
    engine = build_engine(OracleDrafter(LAW), max_step_tokens=3)
    engine.add(request("gone", PROMPT))
    engine.add(request("stays", PROMPT))
    for _ in range(steps):
        engine.step()
    (last,) = engine.abort("gone")
    assert last.finish_reason is FinishReason.ABORT
    engine.pages.check()
    events = run(engine)
    assert events["stays", 0][-1].finish_reason is FinishReason.LENGTH
    assert engine.pages.counts().held == 0
    assert engine.abort("gone") == []


def test_ends_of_every_kind_leave_the_same_number_of_pages_round_after_round() -> None:
    plain = continue_plainly(LAW, PROMPT, 24)
    engine = build_engine(HalfRightDrafter(LAW, VOCAB), eos_ids=(plain[9],))
    free: list[int] = []
    for _ in range(3):
        for at in range(8):
            engine.add(request(str(at), [*PROMPT[: 1 + at % 5], at]))
        engine.step()
        engine.abort("3")
        run(engine)
        free.append(engine.pages.num_free)
    assert free == [free[0]] * 3


def test_a_row_fills_the_whole_cache_and_ends_by_length() -> None:
    engine = build_engine(OracleDrafter(LAW), num_pages=8, longest=32)
    events = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=1000)))["a", 0]
    assert events[-1].finish_reason is FinishReason.LENGTH
    assert len(ids_of(events)) == 32 - len(PROMPT)


class Interrupted(BaseException):
    """Like KeyboardInterrupt, which would end the test run."""


@pytest.mark.parametrize("error", [MemoryError("no memory"), RuntimeError("x"), FloatingPointError("x")])
def test_a_pass_without_memory_ends_its_requests_like_any_other_failure(error: Exception) -> None:
    def law(prefix: tuple[int, ...]) -> FloatArray:
        if len(prefix) == len(PROMPT) + 3:
            raise error
        return LAW(prefix)

    engine = build_engine(law=law)
    last = run(engine, request("a", PROMPT))["a", 0][-1]
    assert last.finish_reason is FinishReason.ERROR
    assert type(error).__name__ in (last.error or "")
    assert answer(engine, PROMPT[:2], replace(GREEDY, max_tokens=3)) == continue_plainly(LAW, PROMPT[:2], 3)


@pytest.mark.parametrize("error", [Interrupted(), IndexError("a foreign model's mistake")])
def test_an_interrupted_step_still_ends_its_requests_with_an_event(error: BaseException) -> None:
    def law(prefix: tuple[int, ...]) -> FloatArray:
        if prefix[0] == 63 and len(prefix) == 5:
            raise error
        return LAW(prefix)

    engine = build_engine(law=law, max_rows=2)
    for name, prompt in (("bad", [63, 1]), ("neighbour", PROMPT), ("waits", PROMPT[:3])):
        engine.add(request(name, prompt))
    with pytest.raises(type(error)):
        run(engine)
    assert engine.has_work
    assert engine.num_choices("bad") == 1
    events = run(engine)
    assert {events[name, 0][-1].finish_reason for name in ("bad", "neighbour")} == {FinishReason.ERROR}
    assert ids_of(events["waits", 0]) == continue_plainly(LAW, PROMPT[:3], 24)
    assert engine.num_choices("bad") == 0


@pytest.mark.parametrize("error", [RuntimeError("the device is gone"), Interrupted()])
def test_after_a_failed_move_no_later_request_reads_the_pages_it_left(error: BaseException) -> None:
    engine = build_engine(RandomTreeDrafter(VOCAB, seed=2, law=LAW), nodes=12, page_size=1)
    target = engine._step.target
    move, calls = target.move, 0

    def fail(sources: IntArray, destinations: IntArray) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise error
        move(sources, destinations)

    target.move = fail  # type: ignore[method-assign]
    told: list[TokenEvent] = []
    engine.add(request("a", PROMPT))
    while engine.has_work:
        with suppress(Interrupted):
            told += engine.step()
        if calls > 1:
            target.move = move  # type: ignore[method-assign]
    assert told[-1].finish_reason is FinishReason.ERROR
    plain = continue_plainly(LAW, PROMPT, 24)
    assert ids_of(told) == plain[: len(ids_of(told))]
    assert answer(engine, [*PROMPT, *plain[:12]], replace(GREEDY, max_tokens=12)) == plain[12:]


def test_a_row_that_failed_is_counted_as_failed() -> None:
    engine = build_engine(law=poisoned)
    run(engine, request("bad", [63, 1, 2]), request("good", PROMPT))
    assert (engine.totals.failed, engine.totals.finished) == (1, 1)
