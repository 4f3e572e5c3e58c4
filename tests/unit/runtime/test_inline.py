"""An engine on a thread of its own: everybody gets a last event, whatever happens."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

import pytest

from paradraft.core.events import TokenEvent
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine
from paradraft.runtime.inline import InlineService
from support.byte_tokenizer import ByteTokenizer
from support.engines import VOCAB, build_engine, ids_of, request, run
from support.serving import described

LONG = SamplingParams(temperature=0.0, max_tokens=400)


class Mailbox:
    """Collects events on the engine's thread and hands them out on the test's."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[TokenEvent] = SimpleQueue()

    def __call__(self, events) -> None:
        for event in events:
            self.queue.put(event)

    def until_ended(self, num_choices: int) -> list[TokenEvent]:
        events: list[TokenEvent] = []
        while sum(event.finish_reason is not None for event in events) < num_choices:
            events.append(self.queue.get(timeout=10))
        return events


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def serve(mailbox):
    services = []

    def start(engine: Engine) -> InlineService:
        service = InlineService(engine, model=described(engine), tokenizer=ByteTokenizer(VOCAB))
        service.start(mailbox)
        services.append(service)
        return service

    yield start
    for service in services:
        service.close(timeout=5)


def hold_steps(engine: Engine) -> threading.Event:
    """Make each step wait until the returned event is set."""
    release, step = threading.Event(), engine.step

    def held():
        release.wait(10)
        return step()

    engine.step = held  # type: ignore[method-assign]
    return release


def test_a_request_gets_the_tokens_of_the_engine_alone(serve, mailbox):
    asked = request("a", [1, 2, 3])
    alone = run(build_engine(), asked)[("a", 0)]
    serve(build_engine()).submit(asked)
    assert ids_of(mailbox.until_ended(1)) == ids_of(alone)


def test_choices_and_requests_are_told_apart(serve, mailbox):
    service = serve(build_engine())
    service.submit(request("a", [1, 2], SamplingParams(n=3, max_tokens=9), seed=1))
    service.submit(request("b", [4], SamplingParams(temperature=0.0, max_tokens=5)))
    ended = [event for event in mailbox.until_ended(4) if event.finish_reason is not None]
    assert {(event.request_id, event.index) for event in ended} == {("a", 0), ("a", 1), ("a", 2), ("b", 0)}


def test_a_cancelled_request_ends_and_gives_its_pages_back(serve, mailbox):
    engine = build_engine()
    release = hold_steps(engine)
    service = serve(engine)
    service.submit(request("a", [1], LONG))
    service.cancel("a")
    release.set()
    assert mailbox.until_ended(1)[-1].finish_reason is FinishReason.ABORT
    assert service.snapshot().running == 0
    assert not service.health().has_work


def test_cancelling_an_unknown_request_changes_nothing(serve, mailbox):
    service = serve(build_engine())
    service.cancel("nobody")
    service.submit(request("a", [1]))
    assert mailbox.until_ended(1)[-1].finish_reason is FinishReason.LENGTH


def test_an_id_in_use_is_refused_and_the_first_goes_on(serve, mailbox):
    engine = build_engine()
    release = hold_steps(engine)
    service = serve(engine)
    service.submit(request("a", [1]))
    service.submit(request("a", [2]))
    release.set()
    first, last = [event for event in mailbox.until_ended(2) if event.finish_reason is not None]
    assert first.finish_reason is FinishReason.ERROR
    assert "in use" in (first.error or "")
    assert last.finish_reason is FinishReason.LENGTH


def test_closing_ends_what_runs(serve, mailbox):
    service = serve(build_engine())
    service.submit(request("a", [1], LONG))
    service.close(timeout=5)
    assert mailbox.until_ended(1)[-1].finish_reason in (FinishReason.ABORT, FinishReason.LENGTH, FinishReason.ERROR)
    service.submit(request("b", [1]))
    assert "stopped" in (mailbox.until_ended(1)[-1].error or "")


def test_an_engine_that_dies_tells_everybody_and_its_health(serve, mailbox):
    engine = build_engine()

    def dies():
        raise KeyError("a fault of our own")

    engine.step = dies  # type: ignore[method-assign]
    service = serve(engine)
    service.submit(request("a", [1], SamplingParams(n=2)))
    ended = mailbox.until_ended(2)
    assert {event.index for event in ended} == {0, 1}
    assert all(event.finish_reason is FinishReason.ERROR and "KeyError" in (event.error or "") for event in ended)
    service.submit(request("b", [1]))
    assert "KeyError" in (mailbox.until_ended(1)[-1].error or "")
    health = service.health()
    assert not health.is_alive
    assert "KeyError" in (health.failure or "")
    assert service.snapshot(timeout=0.1).running == 0


def test_a_step_that_hangs_shows_and_rest_does_not(serve, mailbox):
    engine = build_engine()
    now = [100.0]
    release = hold_steps(engine)
    service = InlineService(engine, model=described(engine), tokenizer=ByteTokenizer(VOCAB), clock=lambda: now[0])
    service.start(mailbox)
    now[0] += 1000.0
    assert service.health().seconds_since_progress == 0.0, "nobody asked for anything"
    service.submit(request("a", [1]))
    assert service.snapshot(timeout=0.01).steps == 0
    for _ in range(1000):  # until the thread has taken the request, its clock stands at rest
        now[0] += 7.0
        if service.health().seconds_since_progress >= 7.0:
            break
        time.sleep(0.001)
    assert service.health().has_work
    assert service.health().seconds_since_progress >= 7.0
    assert service.snapshot(timeout=0.01).steps == 0, "a scrape does not hang with the engine"
    release.set()
    mailbox.until_ended(1)
    service.close(timeout=5)


def test_a_command_after_a_long_rest_is_no_stall():
    now = [100.0]
    engine = build_engine()
    service = InlineService(engine, model=described(engine), tokenizer=ByteTokenizer(VOCAB), clock=lambda: now[0])
    now[0] += 1000.0
    service.submit(request("a", [1]))  # and no thread took it yet
    assert service.health().has_work
    assert service.health().seconds_since_progress == 0.0
    now[0] += 7.0
    service.cancel("a")
    assert service.health().seconds_since_progress == 7.0


def test_a_request_that_breaks_the_engine_as_it_comes_is_told(serve, mailbox):
    engine = build_engine()

    def breaks(_request):
        raise KeyError("a fault of our own")

    engine.add = breaks  # type: ignore[method-assign]
    serve(engine).submit(request("a", [1], SamplingParams(n=2)))
    ended = mailbox.until_ended(2)
    assert {event.index for event in ended} == {0, 1}
    assert all(event.finish_reason is FinishReason.ERROR for event in ended)
