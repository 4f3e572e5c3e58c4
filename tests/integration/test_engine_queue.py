"""Queue, admission and preemption: who waits, what a wait costs, and that nothing is counted that did not happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paradraft.core.errors import ConfigError, RequestRefused
from paradraft.core.events import GenerationStats, TokenEvent
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from support.engines import GREEDY, LAW, VOCAB, answer, build_engine, ids_of, request, run
from support.fake_drafters import HalfRightDrafter, OracleDrafter
from support.stub_target import continue_plainly

LONG = [(7 * at) % VOCAB for at in range(30)]


def stats_of(events: list[TokenEvent]) -> GenerationStats:
    stats = events[-1].stats
    assert stats is not None
    return stats


def test_prompt_logprobs_survive_a_preemption_in_the_middle_of_the_prompt() -> None:
    asked = replace(GREEDY, max_tokens=4, prompt_logprobs=1)
    alone = run(build_engine(), request("a", LONG, asked))["a", 0][0].prompt_logprobs
    engine = build_engine(num_pages=12, longest=48, max_step_tokens=2)
    engine.add(request("first", [1, 2], replace(GREEDY, max_tokens=40)))
    for _ in range(10):
        engine.step()
    events = run(engine, request("a", LONG, asked))["a", 0]
    assert stats_of(events).preemptions > 0
    assert events[0].prompt_logprobs == alone


def test_only_the_first_choice_computes_the_prompts_logprobs() -> None:
    engine = build_engine()
    params = SamplingParams(temperature=1.0, n=3, max_tokens=2, prompt_logprobs=0)
    events = run(engine, request("a", LONG, params))
    assert [stats_of(events["a", choice]).cached_prompt_tokens for choice in range(3)] == [0, 28, 28]
    assert [events["a", choice][0].prompt_logprobs is None for choice in range(3)] == [False, True, True]


def test_a_prompt_that_finds_no_room_waits_without_being_thrown_out_again_and_again() -> None:
    engine = build_engine(num_pages=64, longest=256, max_step_tokens=32)
    engine.add(request("first", [1, 2], replace(GREEDY, max_tokens=90)))
    for _ in range(60):
        engine.step()
    big = [(5 * at) % VOCAB for at in range(200)]
    events = run(engine, request("big", big, replace(GREEDY, max_tokens=3)))
    stats = stats_of(events["big", 0])
    assert stats.preemptions == 0
    assert stats.cached_prompt_tokens == 0
    assert ids_of(events["big", 0]) == continue_plainly(LAW, big, 3)


def test_a_prompt_whose_beginning_another_row_holds_needs_room_for_the_rest_only() -> None:
    engine = build_engine(num_pages=24, longest=96)
    engine.add(request("first", LONG * 2, replace(GREEDY, max_tokens=20)))
    engine.step()
    engine.add(request("second", [*LONG, *LONG, 1], replace(GREEDY, max_tokens=2)))
    assert {event.request_id for event in engine.step()} == {"first", "second"}
    run(engine)


def test_a_row_that_was_preempted_before_its_first_token_does_not_call_its_own_pages_cached() -> None:
    engine = build_engine(num_pages=12, longest=48, max_step_tokens=2)
    engine.add(request("first", [1, 2], replace(GREEDY, max_tokens=20)))
    for _ in range(10):
        engine.step()
    stats = stats_of(run(engine, request("second", LONG, replace(GREEDY, max_tokens=2)))["second", 0])
    assert stats.preemptions > 0
    assert stats.cached_prompt_tokens == 0


def test_recomputed_drafts_are_counted_once_for_each_time_they_are_computed() -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB), num_pages=12, longest=48)
    params = replace(GREEDY, max_tokens=30)
    events = run(engine, *(request(str(at), [at, 1, 2], params) for at in range(4)))
    assert sum(stats_of(found).recomputed for found in events.values()) > 0
    for found in events.values():
        stats = stats_of(found)
        assert stats.recomputed <= stats.accepted * stats.preemptions


def test_a_preempted_request_goes_on_before_one_that_never_ran() -> None:
    engine = build_engine(num_pages=8, longest=32, max_rows=2)
    params = replace(GREEDY, max_tokens=26)
    for name in ("old", "preempted", "new"):
        engine.add(request(name, [1, 2, 3], params))
    told: list[TokenEvent] = []
    while engine.has_work:
        told += engine.step()
    ends = {event.request_id: at for at, event in enumerate(told) if event.finish_reason}
    first_of_new = next(at for at, event in enumerate(told) if event.request_id == "new")
    assert [event.stats.preemptions > 0 for event in told if event.stats] == [False, True, False]
    assert list(ends) == ["old", "preempted", "new"]
    assert first_of_new > ends["old"]


def test_a_second_request_of_the_same_name_is_refused_while_the_first_lives() -> None:
    engine = build_engine()
    engine.add(request("twice", [1, 2]))
    with pytest.raises(RequestRefused, match="twice"):
        engine.add(request("twice", [3, 4]))
    engine.step()
    with pytest.raises(RequestRefused, match="twice"):
        engine.add(request("twice", [3, 4]))
    assert ids_of(run(engine)["twice", 0]) == continue_plainly(LAW, [1, 2], 24)[1:]
    assert ids_of(run(engine, request("twice", [3, 4]))["twice", 0]) == continue_plainly(LAW, [3, 4], 24)


def test_an_aborted_name_can_be_used_again_at_once() -> None:
    engine = build_engine(max_rows=1)
    params = replace(GREEDY, n=3)
    engine.add(request("name", [1, 2], params))
    engine.step()
    assert len(engine.abort("name")) == 3
    assert engine.num_choices("name") == 0
    assert ids_of(run(engine, request("name", [3, 4]))["name", 0]) == continue_plainly(LAW, [3, 4], 24)


@pytest.mark.parametrize("budget", [3, 5, 8])
def test_drafts_of_one_row_do_not_hold_up_another(budget: int) -> None:
    engine = build_engine(OracleDrafter(LAW), gamma=8, nodes=8, max_step_tokens=budget)
    for at in range(3):
        engine.add(request(str(at), [at + 1, 5]))
    for _ in range(3):
        engine.step()
    waited: dict[str, int] = dict.fromkeys("012", 0)
    while engine.has_work:
        told = {event.request_id for event in engine.step()}
        waited = {name: 0 if name in told else gap + 1 for name, gap in waited.items() if engine.num_choices(name)}
        assert all(gap <= 1 for gap in waited.values())


def test_an_engine_refuses_rows_that_its_cache_can_never_hold() -> None:
    with pytest.raises(ConfigError, match="64"):
        build_engine(num_pages=8, page_size=4, longest=64)


def test_a_request_longer_than_the_cache_is_refused_and_one_that_fills_it_ends_by_length() -> None:
    engine = build_engine(num_pages=8, longest=32)
    with pytest.raises(RequestRefused, match="kv_tokens"):
        engine.add(request("too long", LONG[:16] * 2))
    events = run(engine, request("fits", LONG, replace(GREEDY, max_tokens=100)))["fits", 0]
    assert events[-1].finish_reason is FinishReason.LENGTH
    assert len(ids_of(events)) == 2
    assert answer(engine, [1, 2]) == continue_plainly(LAW, [1, 2], 24)
