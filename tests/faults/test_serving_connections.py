"""Clients that send or read slowly, leave, or come in crowds: they end, and nobody else notices."""

from __future__ import annotations

import json
import time

import pytest

from paradraft.server.options import ServerOptions
from support.serving import NAME, served, stub_engine
from support.wire import asked, connected, get, post, read_all

ASK = {"model": NAME, "prompt": [72, 105], "max_tokens": 8, "temperature": 0}
LONG = {**ASK, "max_tokens": 480, "ignore_eos": True}
QUICK = ServerOptions(head_seconds=0.3, body_seconds=0.3, send_seconds=0.5, max_connections=8)


@pytest.fixture(scope="module")
def server():
    with served(options=QUICK) as running:
        yield running


def until(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def was_cut(wire, drop: bytes) -> bool:
    """Send one drop more, and return whether nobody takes it."""
    try:
        wire.sendall(drop)
    except OSError:
        return True
    time.sleep(0.03)
    return False


def held(server) -> int:
    server.service.snapshot()
    return server.engine.pages.counts().held


def test_a_connection_that_says_nothing_is_closed(server):
    with connected(server) as wire:
        assert read_all(wire) == b""


def test_a_head_that_comes_drop_by_drop_is_not_waited_for(server):
    with connected(server) as wire:
        wire.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n")
        assert until(lambda: was_cut(wire, b"X: y\r\n"))


def test_a_second_head_on_one_connection_is_bounded_too(server):
    with connected(server) as wire:
        wire.sendall(get("/version"))
        received = b""
        while not received.endswith(b"}"):
            received += wire.recv(65536)
        wire.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n")
        assert read_all(wire) == b""


def test_a_body_that_comes_drop_by_drop_gets_408(server):
    whole = post("/v1/completions", ASK, "Connection: close")
    with connected(server) as wire:
        wire.sendall(whole[:-5])
        assert read_all(wire).startswith(b"HTTP/1.1 408")


def test_what_trickles_in_behind_a_refusal_is_cut_off(server):
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n"
    )
    with connected(server) as wire:
        wire.sendall(head.encode())
        assert b"415" in wire.recv(65536)
        assert until(lambda: was_cut(wire, b"x"))


def test_a_head_or_a_trailer_that_is_too_long_gets_431(server):
    assert asked(server, get("/version", "X: " + "y" * 100_000))[0] == 431
    assert asked(server, get("/version", *[f"X-{number}: y" for number in range(9000)]))[0] == 431
    assert asked(server, get("/" + "y" * 100_000))[0] == 431
    with connected(server) as wire:
        wire.sendall(b"GET /version HTTP/1.1\r\nX: " + b"y" * 40_000)  # and no end
        assert read_all(wire).startswith(b"HTTP/1.1 431")
    chunked = (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 9000 + b"\r\n"
    )
    with connected(server) as wire:
        wire.sendall(chunked)
        assert b"HTTP/1.1 431" in read_all(wire)


def test_a_body_without_a_length_is_bounded_too():
    with served(options=ServerOptions(max_body_bytes=2048)) as server, connected(server) as wire:
        wire.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"400\r\n" + b" " * 1024 + b"\r\n") * 3
            + b"0\r\n\r\n"
        )
        assert read_all(wire).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01", b"HELLO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_gets_400_in_the_usual_shape(server, noise):
    with connected(server) as wire:
        wire.sendall(noise)
        head, _, body = read_all(wire).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_more_connections_than_allowed_are_told_so_and_leave_room_again(server):
    wires = [connected(server) for _ in range(QUICK.max_connections)]
    opened = [wire.__enter__() for wire in wires]
    try:
        with connected(server) as one_more:
            assert read_all(one_more).startswith(b"HTTP/1.1 503")
    finally:
        for wire in wires:
            wire.__exit__(None, None, None)
    assert len(opened) == QUICK.max_connections
    assert until(lambda: asked(server, get("/version"))[0] == 200)


def test_a_reader_that_reads_nothing_is_cut_off_and_stalls_nobody():
    bulky = {**LONG, "stream": True, "n": 8, "logprobs": 100, "temperature": 0.9}
    quick = ServerOptions(send_seconds=0.5)
    with served(options=quick) as server, connected(server, receive_bytes=4096) as wire:
        wire.sendall(post("/v1/completions", {**bulky, "prompt": [[72]] * 4}))
        assert until(lambda: server.context.switchboard.num_open > 0)
        for _ in range(5):
            assert server.client.post("/v1/completions", json=ASK).status_code == 200
        assert until(lambda: not vars(server.context.switchboard)["_inboxes"], 60), "it is held on to"
        assert until(lambda: held(server) == 0)
        assert b"[DONE]" not in read_all(wire)


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_frees_its_pages_and_those_that_wait_behind_it(streams):
    engine = stub_engine(max_rows=2)
    with served(engine) as server:
        for _ in range(6):
            with connected(server) as wire:
                wire.sendall(post("/v1/completions", {**LONG, "n": 3, "temperature": 0.8, "stream": streams}))
                assert until(lambda: server.context.switchboard.num_open == 3)
        assert until(lambda: server.context.switchboard.num_open == 0, 3)
        assert held(server) == 0
        engine.pages.check()


def test_a_client_that_leaves_while_it_sends_leaves_nothing(server):
    for cut in (10, 60, -3):
        with connected(server) as wire:
            wire.sendall(post("/v1/completions", ASK)[:cut])
    assert server.context.switchboard.num_open == 0
    assert server.client.post("/v1/completions", json=ASK).status_code == 200


def test_requests_sent_without_waiting_are_answered_in_turn(server):
    with connected(server) as wire:
        wire.sendall(post("/v1/completions", ASK) + get("/version") + post("/v1/completions", ASK, "Connection: close"))
        answers = read_all(wire)
    assert answers.count(b"HTTP/1.1 200") == 3
    assert answers.index(b"text_completion") < answers.index(b'"version"')
