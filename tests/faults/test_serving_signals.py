"""`paradraft serve` as a process: what it says at its start, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import httpx2 as httpx
import pytest

from paradraft.models.tiny import write_tiny_model
from paradraft.server.doors import Address, Door
from support.server_process import COMMAND, serving, stream


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)


def refusal(url: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/completions", json={"prompt": "abc", "max_tokens": 1}, timeout=10)


def test_a_signal_under_load_loses_nothing_that_was_accepted(model, tmp_path):
    with serving(model, tmp_path, "--log-format", "json") as server, ThreadPoolExecutor(16) as pool:
        alone = stream(server.url)
        begun = Semaphore(0)
        running = [pool.submit(stream, server.url, begun=begun) for _ in range(12)]
        for _ in running:
            assert begun.acquire(timeout=30)
        server.process.send_signal(signal.SIGTERM)
        server.until_said("Stopping")
        outcomes = []
        while server.process.poll() is None:
            try:
                outcomes.append(refusal(server.url))
            except httpx.TransportError:
                break  # the door is closed
        answers = [each.result(60) for each in running]
        assert server.process.wait(30) == 0, server.said
    assert int(re.search(r"(\d+) answers may finish", server.said)[1]) > 0, "they were over before the signal"
    assert answers == [alone] * 12, "an answer under load is the answer alone"
    assert {each.status_code for each in outcomes} <= {503}
    assert all(int(each.headers["retry-after"]) > 0 for each in outcomes)
    logged = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
    assert sum(line.get("finish") == "length" for line in logged) == 13


def test_what_does_not_finish_within_the_drain_is_cut_off_with_a_reason(model, tmp_path):
    with serving(model, tmp_path, "--drain", "0.2", "--max-waiting", "400") as server, ThreadPoolExecutor(64) as pool:
        begun = Semaphore(0)
        running = [pool.submit(stream, server.url, n=4, begun=begun) for _ in range(64)]
        for _ in running:
            assert begun.acquire(timeout=30)
        server.process.send_signal(signal.SIGTERM)
        answers = [each.result(60) for each in running]
        assert server.process.wait(30) == 0, server.said
    assert all(reason in ("length", "abort") for status, reason, _ in answers if status == 200)
    assert any(reason == "abort" for _, reason, _ in answers)


def test_a_second_signal_does_not_wait(model, tmp_path):
    with serving(model, tmp_path, "--drain", "300", "--max-waiting", "400") as server, ThreadPoolExecutor(64) as pool:
        running = [pool.submit(stream, server.url, n=4, temperature=1) for _ in range(64)]
        time.sleep(1.0)
        server.process.send_signal(signal.SIGINT)
        server.until_said("Stopping")
        server.process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert server.process.wait(30) == 0, server.said
        assert time.monotonic() - begun < 20
        for each in running:
            each.exception(60)


def test_the_start_says_what_is_served_and_how(model, tmp_path):
    with serving(model, tmp_path, "--drafter", "ngram") as server:
        said = server.said
        ready = httpx.get(f"{server.url}/health/ready").status_code
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert server.said.endswith("Stopping: no answer is being made.\n")
    assert ready == 200, "it is warm when it says so"
    for part in ("tiny", "drafter ngram", "rule coupled (exact)", "weights", "cache", "reserve", "loopback only"):
        assert part in said, part
    assert server.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--host", "0.0.0.0"], "API keys"),
        (["--host", "192.0.2.1", "--api-keys", "KEYS"], "cannot listen there"),
        (["--port", "PORT"], "cannot listen there"),
        (["--api-keys", "NONE"], "cannot be read (No such file or directory)"),
        (["--metrics-port", "PORT"], "Choose another port with --metrics-port"),
        (["--port", "PORT", "--metrics-port", "PORT"], "the port of the server itself"),
        (["--metrics-port", "0", "--metrics-host", "0.0.0.0"], "--metrics-host 0.0.0.0 can be reached"),
        (["--metrics-port", "0", "--metrics-host", "192.0.2.1", "--api-keys", "KEYS"], "cannot listen there"),
        (["--metrics-host", "127.0.0.1"], "--metrics-port"),
        (["--limit", "max_stops=nine"], "no number"),
        (["--limit", "max_stops"], "Write it as NAME=NUMBER"),
        (["--limit", "max_stops=99"], "max_stops=99"),
        (["--limit", "body=9"], "max_body_bytes"),
        (["--deadline", "0"], "deadline_seconds"),
    ],
)
def test_what_cannot_be_served_safely_is_refused_before_anything_is_loaded(tmp_path, options, word):
    keys = tmp_path / "keys.txt"
    keys.write_text("# ours\nabc\n", encoding="utf-8")
    with Door(Address(port=0)) as door:
        door.open()
        given = {"KEYS": str(keys), "PORT": door.url.rpartition(":")[2], "NONE": str(tmp_path / "none.txt")}
        command = [*COMMAND, "serve", "no/such/model", *[given.get(option, option) for option in options]]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert word in ended.stderr
    assert "Traceback" not in ended.stderr
