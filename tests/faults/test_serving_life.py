"""The life of a server: ready or not, full, late, dying. Every answer that was begun ends, and says how."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2 as httpx
import orjson
import pytest

from paradraft.core.filtering import HOLD, PASS
from paradraft.core.serving import EngineSnapshot
from paradraft.runtime.inline import InlineService
from paradraft.server.app import build_app, build_context
from paradraft.server.doors import Address, Door
from paradraft.server.guards.keys import Keys
from paradraft.server.listening import Entrance, listen
from paradraft.server.logs import JsonLines, TextLines
from paradraft.server.options import ServerOptions
from support.byte_tokenizer import ByteTokenizer
from support.quiet_observer import QuietObserver
from support.serving import BYTES, NAME, described, served, stub_engine

ASK = {"model": NAME, "prompt": [72, 105], "max_tokens": 8, "temperature": 0}
LONG = {**ASK, "max_tokens": 480, "ignore_eos": True}


def held_back(server) -> threading.Event:
    """Make each step wait until the returned event is set, as a pass that hangs would."""
    release, step = threading.Event(), server.engine.step

    def held():
        release.wait(30)
        return step()

    server.engine.step = held
    return release


def until(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def status_of(server, path: str) -> int:
    return server.client.get(path).status_code


def complete(server, **fields):
    return server.client.post("/v1/completions", json={**ASK, **fields})


def streamed(server, **fields) -> tuple[list[dict], list[dict], bool]:
    """Return the choices of all chunks, the errors, and whether the stream was closed properly."""
    response = complete(server, stream=True, **fields)
    assert response.status_code == 200
    events = [event for event in response.text.split("\n\n") if event and not event.startswith(":")]
    lines = [event.removeprefix("data: ") for event in events]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", [])]
    return choices, [chunk["error"] for chunk in chunks if "error" in chunk], lines[-1] == "[DONE]"


def test_a_stalled_engine_turns_ready_to_503_within_five_seconds_and_back():
    with served() as server, ThreadPoolExecutor(1) as pool:
        assert status_of(server, "/health/ready") == 200
        release = held_back(server)
        answer = pool.submit(complete, server)
        begun = time.monotonic()
        assert until(lambda: status_of(server, "/health/ready") == 503)
        assert time.monotonic() - begun < 5.0
        assert status_of(server, "/health/live") == 200, "it hangs, but may come back"
        refused = complete(server)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_stalled")
        assert int(refused.headers["retry-after"]) > 0
        release.set()
        assert answer.result(10).status_code == 200
        assert status_of(server, "/health/ready") == 200
        assert complete(server).status_code == 200


def test_an_engine_at_rest_is_ready_however_long_it_rested():
    with served(options=ServerOptions(stall_seconds=0.1)) as server:
        for _ in range(5):
            time.sleep(0.3)
            assert status_of(server, "/health/ready") == 200
            assert complete(server).status_code == 200


def test_an_engine_that_dies_ends_every_stream_and_shows_in_health():
    with served() as server, ThreadPoolExecutor(4) as pool:
        release = held_back(server)
        streams = [pool.submit(streamed, server, **LONG, n=2) for _ in range(2)]
        whole = pool.submit(complete, server, **LONG)
        assert until(lambda: server.context.switchboard.num_open == 5)

        def dies():
            raise KeyError("a fault of our own")

        server.engine.step = dies
        release.set()
        for stream in streams:
            choices, errors, is_closed = stream.result(10)
            assert sorted(choice["index"] for choice in choices if choice["finish_reason"] == "error") == [0, 1]
            assert errors
            assert is_closed
        assert whole.result(10).status_code == 500
        assert status_of(server, "/health/live") == status_of(server, "/health/ready") == 503
        late = complete(server)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "engine_stopped")
        assert server.context.switchboard.num_open == 0


def test_a_request_that_the_engine_chokes_on_is_told_before_the_engine_ends():
    with served() as server:

        def chokes(_request):
            raise RuntimeError("a fault of our own")

        server.engine.add = chokes
        assert complete(server).status_code == 500
        assert until(lambda: status_of(server, "/health/live") == 503)


def holding_back():
    return lambda text, is_last: PASS if is_last else HOLD


@pytest.mark.parametrize("make_filter", [None, holding_back])
@pytest.mark.parametrize("smoothing", [{}, {"smoothing_ms": 30}, {"smoothing": "rhythm", "smoothing_ms": 30}])
def test_a_deadline_ends_each_open_choice_of_a_stream_with_a_reason(smoothing, make_filter):
    options = ServerOptions(deadline_seconds=0.4, **smoothing)
    with served(options=options, make_filter=make_filter) as server:
        release = held_back(server)
        choices, errors, is_closed = streamed(server, **LONG, n=3, stream_options={"include_usage": True})
        release.set()
        assert [(choice["index"], choice["finish_reason"]) for choice in choices] == [(at, "abort") for at in range(3)]
        assert [error["code"] for error in errors] == ["deadline_exceeded"]
        assert is_closed
        assert until(lambda: server.context.switchboard.num_open == 0)
        assert server.service.snapshot().running == 0


def test_a_deadline_of_a_whole_answer_is_a_503():
    with served(options=ServerOptions(deadline_seconds=0.3)) as server:
        release = held_back(server)
        late = complete(server, **LONG)
        release.set()
        assert (late.status_code, late.json()["error"]["code"]) == (503, "deadline_exceeded")
        assert int(late.headers["retry-after"]) > 0
        assert until(lambda: server.context.switchboard.num_open == 0)


def test_a_full_queue_says_429_and_never_takes_more_than_it_has_room_for():
    options = ServerOptions(max_waiting=3)
    with served(stub_engine(max_rows=2), options=options) as server, ThreadPoolExecutor(24) as pool:
        release = held_back(server)
        asked = [pool.submit(complete, server, stream=at % 2 == 0) for at in range(24)]
        assert until(lambda: sum(each.done() for each in asked) == 19)
        assert server.context.switchboard.num_open == 5
        refused = [each.result() for each in asked if each.done()]
        release.set()
        assert {each.status_code for each in refused} == {429}
        assert all(each.headers["retry-after"] == "1" for each in refused)
        assert sorted(each.result(10).status_code for each in asked) == [200] * 5 + [429] * 19
        assert complete(server, n=6, temperature=1).status_code == 400
        assert complete(server, n=5, temperature=1).status_code == 200


SAYS_HI = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}


@pytest.mark.parametrize("is_full", [True, False])
def test_a_conversation_that_cannot_be_taken_is_turned_away_before_it_is_rendered(is_full, monkeypatch):
    async def rendered(*_):
        raise AssertionError("it was rendered")

    monkeypatch.setattr("paradraft.server.routes.chat.prompt_of", rendered)
    with served(stub_engine(max_rows=1), options=ServerOptions(max_waiting=0)) as server, ThreadPoolExecutor(1) as pool:
        release = held_back(server)
        running = pool.submit(complete, server)
        assert until(lambda: server.context.switchboard.num_open == 1)
        server.context.admission.is_draining = not is_full
        refused = server.client.post("/v1/chat/completions", json=SAYS_HI)
        release.set()
        assert refused.status_code == (429 if is_full else 503)
        assert running.result(10).status_code == 200


def test_a_request_asks_once_whether_the_engine_is_well(monkeypatch):
    with served() as server:
        asked, health = [], server.service.health
        monkeypatch.setattr(server.service, "health", lambda: asked.append(health()) or asked[-1])
        for route, body in (("/v1/completions", ASK), ("/v1/chat/completions", SAYS_HI)):
            for streams in (False, True):
                asked.clear()
                assert server.client.post(route, json={**body, "stream": streams}).status_code == 200
                assert len(asked) == 1, (route, streams)


def test_one_key_leaves_room_for_the_others():
    options = ServerOptions(max_per_key=2)
    with served(options=options, keys=("one", "two")) as server, ThreadPoolExecutor(4) as pool:
        release = held_back(server)
        first = [pool.submit(complete, server) for _ in range(2)]
        assert until(lambda: server.context.switchboard.num_open == 2)
        assert complete(server).status_code == 429
        headers = {"Authorization": "Bearer two"}
        other = pool.submit(server.client.post, "/v1/completions", json=ASK, headers=headers)
        assert until(lambda: server.context.switchboard.num_open == 3)
        release.set()
        assert [each.result(10).status_code for each in (*first, other)] == [200] * 3
        assert complete(server).status_code == 200


def test_no_new_requests_while_it_stops_and_the_running_ones_finish():
    with served() as server, ThreadPoolExecutor(2) as pool:
        release = held_back(server)
        running = pool.submit(streamed, server, **LONG)
        assert until(lambda: server.context.switchboard.num_open == 1)
        server.context.admission.is_draining = True
        refused = complete(server)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopping")
        assert int(refused.headers["retry-after"]) > 0
        assert complete(server, stream=True).status_code == 503
        assert status_of(server, "/health/ready") == 503
        assert status_of(server, "/health/live") == 200
        release.set()
        choices, errors, is_closed = running.result(10)
        assert choices[-1]["finish_reason"] == "length"
        assert not errors
        assert is_closed


class Refusals(QuietObserver):
    """Keeps what was refused."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    def refused(self, status: int, reason: str) -> None:
        self.seen.append((status, reason))


def test_what_is_refused_is_told_to_the_observer_and_what_is_answered_is_not():
    observer = Refusals()
    with served(observer=observer, options=ServerOptions(deadline_seconds=0.3)) as server:
        assert complete(server).status_code == 200
        assert complete(server, n=0).status_code == 422
        assert complete(server, model="other").status_code == 404
        release = held_back(server)
        assert complete(server).status_code == 503
        release.set()
        assert until(lambda: len(observer.seen) == 2)
    assert observer.seen == [(422, "invalid_value"), (404, "model_not_found")]


@pytest.fixture
def lines(caplog):
    """Return what was logged about requests, as the two formats write it."""
    caplog.set_level(logging.DEBUG, "paradraft.requests")

    def written() -> list[tuple[dict, str]]:
        records = [record for record in caplog.records if record.name == "paradraft.requests"]
        return [(orjson.loads(JsonLines().format(record)), TextLines().format(record)) for record in records]

    return written


def test_each_request_has_a_line_with_figures_and_no_text(lines):
    secret = "a very private prompt"
    with served(keys=("key",)) as server:
        ids = [
            complete(server, prompt=secret, n=2, temperature=0.5).headers["x-request-id"],
            complete(server, prompt=secret, stream=True, speculative={"gamma": 2}).headers["x-request-id"],
            complete(server, prompt=secret, n=0).headers["x-request-id"],
        ]
        assert until(lambda: len(lines()) == 3)
    by_id = {line["id"]: line for line, _ in lines()}
    whole, stream, refused = (by_id[each] for each in ids)
    assert (whole["status"], whole["prompt_tokens"], whole["completion_tokens"]) == (200, len(secret), 16)
    assert stream["finish"] in ("length", "stop")
    assert 0 < stream["first_seconds"] <= stream["seconds"]
    assert stream["tau"] >= 1.0
    assert (refused["status"], refused["code"]) == (422, "invalid_value")
    assert len({line["tenant"] for line, _ in lines()}) == 1
    assert not [line for line in lines() if secret in str(line) or "key" in str(line[0]["tenant"])]


def test_probes_are_for_those_who_debug(lines):
    with served() as server:
        for path in ("/health", "/health/live", "/health/ready", "/page/live"):
            assert status_of(server, path) == 200
        assert until(lambda: len(lines()) == 4)
    assert {line["level"] for line, _ in lines()} == {"debug"}


@pytest.mark.parametrize("path", ["/v1/%0a2026-01-01%20ERROR%20forged=1", "/v1/%ff%fe", "/v1/" + "x" * 3000])
def test_nobody_writes_lines_of_his_own_into_the_log(lines, path):
    with served() as server:
        assert server.client.get(path).status_code == 404
        assert until(lambda: len(lines()) == 1)
    [(as_json, as_text)] = lines()
    assert as_json["status"] == 404
    assert "\n" not in as_text
    assert "forged=1" not in shlex.split(as_text)
    assert len(as_text) < 600


def test_a_scrape_of_a_hanging_engine_does_not_hang():
    with served() as server, ThreadPoolExecutor(1) as pool:
        release = held_back(server)
        answer = pool.submit(complete, server)
        assert until(lambda: server.service.health().has_work)
        assert isinstance(server.service.snapshot(timeout=0.05), EngineSnapshot)
        release.set()
        assert answer.result(10).status_code == 200


def test_a_server_whose_engine_dies_ends_by_itself_after_it_told_everybody():
    engine = stub_engine()

    def dies():
        raise KeyError("a fault of our own")

    engine.step = dies
    service = InlineService(engine, model=described(engine), tokenizer=ByteTokenizer(BYTES))
    context = build_context(service, QuietObserver(), ServerOptions())
    entrance = Entrance(app=build_app(context, Keys(())), door=Door(Address(port=0)))
    answers = []
    with ThreadPoolExecutor(1) as pool:

        def ask() -> None:
            url = f"{entrance.door.url}/v1/completions"
            answers.append(pool.submit(httpx.post, url, json={**ASK, "stream": True}, timeout=20))

        ended_as_asked = asyncio.run(listen(context, entrance, on_ready=ask))
    assert not ended_as_asked
    assert '"finish_reason":"error"' in answers[0].result().text
    assert answers[0].result().text.endswith("data: [DONE]\n\n")
