"""Metrics and health on an address of their own: who gets them there, and that they outlast the server in front."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from paradraft.core.errors import ConfigError
from paradraft.models.tiny import write_tiny_model
from paradraft.runtime.inline import InlineService
from paradraft.server.app import build_app, build_context
from paradraft.server.doors import Address, Door
from paradraft.server.guards.keys import Keys
from paradraft.server.listening import Entrance, listen
from paradraft.server.options import ServerOptions
from support.byte_tokenizer import ByteTokenizer
from support.quiet_observer import QuietObserver
from support.server_process import Process, serving, stream
from support.serving import BYTES, described, stub_engine

KEY = {"Authorization": "Bearer the-key"}
HEALTH = ("/health", "/health/live", "/health/ready")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    file.write_text("the-key\n", encoding="utf-8")
    return ("--api-keys", str(file))


@pytest.fixture(scope="module")
def server(model, keys, tmp_path_factory):
    options = ("--metrics-port", "0", *keys, "--trusted-host", "llm.example", "--limit", "max_connections=2")
    with serving(model, tmp_path_factory.mktemp("log"), *options) as running:
        yield running


def operators_url(server: Process) -> str:
    return re.search(r"Metrics and health on (http://\S+)", server.said)[1]


def status(url: str, **headers: str) -> int:
    return httpx.get(url, headers=headers, timeout=10).status_code


def test_the_start_names_both_addresses_and_who_needs_a_key(server):
    lines = server.said.splitlines()
    assert "no API key needed" in next(line for line in lines if line.startswith("Metrics and health on"))
    assert "(1 API key)" in next(line for line in lines if line.startswith("Serving on"))
    assert operators_url(server).startswith("http://127.0.0.1:")


def test_metrics_need_no_key_there_and_are_gone_from_the_public_address(server):
    assert "vllm:num_requests_running" in httpx.get(f"{operators_url(server)}/metrics").text
    assert status(f"{server.url}/metrics", **KEY) == 404
    assert status(f"{server.url}/metrics") == 401
    assert "/metrics" not in httpx.get(f"{server.url}/openapi.json", headers=KEY).json()["paths"]


def test_health_is_told_at_both(server):
    for url in (server.url, operators_url(server)):
        assert [status(f"{url}{path}") for path in HEALTH] == [200] * len(HEALTH)


@pytest.mark.parametrize("path", ["/", "/v1/models", "/version", "/openapi.json", "/docs", "/page/live", "/tokenize"])
def test_nothing_else_is_told_to_who_has_no_key(server, path):
    assert status(f"{operators_url(server)}{path}") == 404


def test_a_page_that_was_lured_there_reads_no_figures(server):
    url = operators_url(server)
    assert status(f"{url}/metrics", Host="evil.example") == 400
    assert [status(f"{url}{path}", Host="evil.example") for path in HEALTH] == [200] * len(HEALTH)
    assert status(f"{url}/metrics", Host="llm.example") == status(f"{url}/metrics", Host="localhost:1") == 200


def test_what_is_refused_there_is_not_counted_as_a_request_of_a_client(server):
    def rejected() -> list[str]:
        page = httpx.get(f"{operators_url(server)}/metrics").text
        return [line for line in page.splitlines() if line.startswith("paradraft_requests_rejected_total")]

    before = rejected()
    assert status(f"{operators_url(server)}/nothing") == 404
    assert rejected() == before
    assert status(f"{server.url}/nothing", **KEY) == 404
    assert rejected() != before


def test_clients_who_fill_the_public_address_are_not_in_the_way(server):
    place = urlsplit(server.url)
    idle = [socket.create_connection((place.hostname, place.port), timeout=10) for _ in range(2)]
    try:
        assert status(f"{server.url}/health/live") == 503
        assert status(f"{operators_url(server)}/health/live") == 200
        assert status(f"{operators_url(server)}/metrics") == 200
    finally:
        for each in idle:
            each.close()


def test_on_an_address_that_others_reach_metrics_need_a_key(model, keys, tmp_path):
    options = ("--metrics-port", "0", "--metrics-host", "0.0.0.0", *keys, "--log-format", "json")
    with serving(model, tmp_path, *options) as server:
        url = re.search(r"Metrics and health on http://0\.0\.0\.0:(\d+) \(1 API key\)", server.said)
        assert url, server.said
        here = f"http://127.0.0.1:{url[1]}"
        assert [status(f"{here}/metrics"), status(f"{here}/metrics", **KEY)] == [401, 200]
        assert status(f"{here}/health/ready") == 200


def test_it_tells_of_a_drain_and_outlasts_the_server_in_front(model, tmp_path):
    with serving(model, tmp_path, "--metrics-port", "0", "--drain", "60") as server, ThreadPoolExecutor(12) as pool:
        begun, url = Semaphore(0), operators_url(server)
        running = [pool.submit(stream, server.url, begun=begun) for _ in range(12)]
        for _ in running:
            assert begun.acquire(timeout=30)
        half = half_a_request(server.url)  # keeps the server in front until it is cut off
        server.process.send_signal(signal.SIGTERM)
        server.until_said("Stopping")
        ready = httpx.get(f"{url}/health/ready").json()
        figures = httpx.get(f"{url}/metrics").text
        assert all(each.result(60)[1] == "length" for each in running)
        until_refused(server.url)
        assert status(f"{url}/metrics") == 200, "the server in front is closed, and the figures are still told"
        half.close()
        assert server.process.wait(30) == 0, server.said
    assert ready == {"status": "not ready", "reason": "the server is stopping"}
    assert re.search(r"^vllm:num_requests_running\{.*\} [1-9]", figures, re.MULTILINE), "requests ran meanwhile"
    until_refused(url)


def test_an_address_that_somebody_else_took_meanwhile_starts_nothing():
    service = InlineService(stub_engine(), model=described(stub_engine()), tokenizer=ByteTokenizer(BYTES))
    context = build_context(service, QuietObserver(), ServerOptions())
    front, told = Door(Address(port=0)), []
    port = int(front.url.rpartition(":")[2])
    with front, Door(Address(port=0)) as other:
        late = Door(Address(port=int(other.url.rpartition(":")[2]), options=("--metrics-host", "--metrics-port")))
        other.open()
        entrances = [Entrance(app=build_app(context, Keys(())), door=door) for door in (front, late)]
        with late, pytest.raises(ConfigError, match=r"--metrics-port \d+: the server cannot listen there"):
            asyncio.run(listen(context, *entrances, on_ready=lambda: told.append("ready")))
    assert not told
    assert not service.health().is_alive, "the engine was not started"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def half_a_request(url: str) -> socket.socket:
    """Return a connection whose request has a head and never gets its body."""
    place = urlsplit(url)
    half = socket.create_connection((place.hostname, place.port), timeout=10)
    lines = ("POST /v1/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 9")
    half.sendall("\r\n".join([*lines, "", ""]).encode())
    return half


def until_refused(url: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            httpx.get(f"{url}/health/live", timeout=5)
        except httpx.ConnectError:
            return
        except httpx.TransportError:
            pass  # it closes just now
        time.sleep(0.01)
    raise AssertionError(f"{url} is still served")
