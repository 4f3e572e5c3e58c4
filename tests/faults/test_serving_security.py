"""Each kind of vulnerability that was found in servers of this sort, tried on this one."""

from __future__ import annotations

import ast
import hmac
import json
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import RequestRefused
from paradraft.drafters.guard import GuardedDrafter
from paradraft.models.chat_template import ChatTemplate
from paradraft.server.app import build_app
from paradraft.server.guards.keys import OPEN_PATHS, Keys
from paradraft.server.options import ServerOptions
from support.fake_drafters import OracleDrafter
from support.serving import BYTES, NAME, served, stub_engine
from support.source_tree import modules
from support.stub_target import hashed_law
from support.wire import asked, get, post

KEYS = ("correct-horse", "battery-staple")
ASK = {"model": NAME, "prompt": [72, 105], "max_tokens": 12, "temperature": 0}
FIELDS = (
    {"frequency_penalty": 1.5},
    {"presence_penalty": -1.5},
    {"repetition_penalty": 1.7},
    {"logit_bias": {"65": 100}},
    {"logit_bias": {"66": -100, "67": 5}},
    {"min_tokens": 9, "stop": ["a"]},
    {"min_p": 0.3, "temperature": 1.0, "seed": 3},
    {"top_k": 2, "temperature": 1.5, "seed": 4},
    {"logprobs": 3},
    {"echo": True, "logprobs": 1},
    {"stop_token_ids": [70], "ignore_eos": True},
    {"n": 3, "temperature": 0.8, "seed": 9},
    {"speculative": {"gamma": 1}},
)


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


@pytest.fixture(scope="module")
def locked():
    with served(keys=KEYS) as running:
        yield running


def choices(server, **fields) -> list[dict]:
    response = server.client.post("/v1/completions", json={**ASK, **fields})
    assert response.status_code == 200, response.text
    return response.json()["choices"]


def complete(server, content: bytes):
    return server.client.post("/v1/completions", content=content, headers={"content-type": "application/json"})


class DamagedDrafter(OracleDrafter):
    """Knows what is right and hands it over in shapes and with ids that are not."""

    def __init__(self) -> None:
        super().__init__(hashed_law(BYTES))
        self._turn = 0

    def propose(self, batch, plan):
        good = super().propose(batch, plan)
        if not len(good.tokens):
            return good
        self._turn += 1
        damaged = (
            lambda: replace(good, tokens=good.tokens * 0 - 1),
            lambda: replace(good, tokens=good.tokens + BYTES),
            lambda: replace(good, tokens=good.tokens.reshape(1, -1)),
            lambda: replace(good, starts=np.append(good.starts, good.starts[-1])),
            lambda: replace(good, parents=ints(range(len(good.tokens)))),
            lambda: good,
        )
        return damaged[self._turn % len(damaged)]()


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_speculation_specific_engine_kill(fields):
    engine = stub_engine(drafter=GuardedDrafter(DamagedDrafter(), vocab_size=BYTES))
    with served(engine) as server:
        plain = choices(server, **{**fields, "speculative": {"enabled": False}})
        assert choices(server, **fields) == plain
        assert server.service.health().is_alive
    assert engine.drafter.failures


@pytest.mark.parametrize(
    "raw",
    [
        '"n": 1000000000',
        '"n": 128',
        '"best_of": 100000',
        '"min_tokens": 2147483647',
        '"min_tokens": 2147483647, "max_tokens": 2147483647',
        '"stop_token_ids": [999999]',
        '"stop_token_ids": [-1]',
        '"prompt": [999999]',
        '"prompt": [-1]',
        '"prompt": []',
        '"prompt": ""',
        '"prompt": [[1], []]',
        '"logprobs": 1000000',
        '"logit_bias": {"999999": 1}',
        '"logit_bias": {"-1": 1}',
        '"logit_bias": {"65": 1e308}',
        '"logit_bias": {"65": NaN}',
        '"temperature": NaN',
        '"temperature": Infinity',
        '"temperature": 1e-300',
        '"repetition_penalty": 0',
        '"frequency_penalty": -Infinity',
        '"seed": 18446744073709551616',
        '"seed": -1',
        '"max_tokens": ' + "9" * 5000,
        '"speculative": {"gamma": -1}',
        '"speculative": {"gamma": 1000000}',
        '"stop": [' + ",".join(['"x"'] * 1000) + "]",
        '"stop": "\\ud800"',
        '"prompt": "\\ud800"',
        '"prompt": ' + "[" * 100_000,
    ],
    ids=lambda raw: raw[:40],
)
def test_a_request_parameter_that_kills_a_shared_engine(server, raw):
    alone = choices(server)
    content = '{"model": "stub", "temperature": 0, ' + ('"prompt": [72], ' if '"prompt"' not in raw else "") + raw + "}"
    response = complete(server, content.encode())
    assert response.status_code < 500, response.text
    assert server.service.health().is_alive
    assert choices(server) == alone


def test_cross_request_state_leak_in_batch_slots():
    with served(stub_engine(max_rows=3)) as server:
        alone = [choices(server, **fields) for fields in FIELDS]
        turns = list(range(len(FIELDS))) * 4
        random.Random(5).shuffle(turns)
        with ThreadPoolExecutor(12) as pool:
            together = list(pool.map(lambda at: choices(server, **FIELDS[at]), turns))
    for at, got in zip(turns, together, strict=True):
        assert got == alone[at], FIELDS[at]


def test_abort_across_tenants():
    with served(keys=KEYS) as server:
        mine, theirs = ({"Authorization": f"Bearer {key}"} for key in KEYS)
        with server.client.stream(
            "POST", "/v1/completions", headers=mine, json={**ASK, "max_tokens": 200, "ignore_eos": True, "stream": True}
        ) as stream:
            known = stream.headers["x-request-id"]
            tried = [("/v1/completions", {**ASK, field: known[:1]}) for field in ("request_id", "rid", "id", "abort")]
            tried += [(path, {"rid": ""}) for path in ("/abort", "/v1/abort", f"/v1/completions/{known}")]
            answered = [server.client.post(path, headers=theirs, json=body).status_code for path, body in tried]
            same = server.client.post("/v1/completions", headers={**theirs, "X-Request-Id": known}, json=ASK)
            assert same.headers["x-request-id"] != known
            chunks = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]
    assert answered == [422] * 4 + [404] * 3
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1] == "length"


def test_an_unbounded_algorithm_on_user_input(server, monkeypatch):
    monkeypatch.setattr(server.service.tokenizer, "encode", lambda *_, **__: pytest.fail("it was encoded"))
    bodies = (
        {"prompt": "x" * 500_000},
        {"prompt": ["x" * 400_000] * 4},
        {"prompt": [None] * 300_000},
        {"prompt": [[]] * 300_000},
        {"prompt": ["x"] * 5000},
        {"prompt": [1] * 500_000},
        {f"field{number}": 1 for number in range(100_000)},
        {"prompt": [1], "speculative": {f"field{number}": 1 for number in range(100_000)}},
        {"prompt": [1], "logit_bias": {str(number): 1 for number in range(100_000)}},
        {"prompt": [1], "logit_bias": {str(number): 1 for number in range(2000)}},
        {"prompt": [1], "stop": ["x" * 2000]},
        {"prompt": [1], "stop": [None] * 300_000},
        {"prompt": [1], "stop_token_ids": ["x"] * 300_000},
        {"prompt": [1], "user": "x" * 500_000},
        {"prompt": [1], "model": "x" * 500_000},
        {"prompt": [1], "x" * 500_000: 1},
    )
    for body in bodies:
        response = server.client.post("/v1/completions", json=body)
        assert response.status_code in (400, 404, 422), response.text[:200]
        assert len(response.content) < 2000
    assert complete(server, b" " * (ServerOptions().max_body_bytes + 1)).status_code == 413
    assert asked(server, get("/version", "X: " + "y" * 40_000))[0] == 431
    assert asked(server, get("/" + "y" * 40_000))[0] == 431


@pytest.mark.parametrize(
    "host",
    ["localhost/health", "localhost/health/live?", "localhost/health/ready#", "localhost:1/health", "x@localhost", ""],
)
def test_authentication_bypass_by_the_host_header(locked, host):
    assert asked(locked, get("/v1/models", host=host))[0] in (400, 401)
    assert asked(locked, post("/v1/completions", ASK, host=host))[0] in (400, 401)


@pytest.mark.parametrize(
    "target",
    [
        "//v1/models",
        "/v1/models/",
        "/v1//models",
        "/%76%31/models",
        "/v1/models%00",
        "/health/../v1/models",
        "/health/live/../../v1/models",
        "/health/live%2f..%2f..%2fv1%2fmodels",
        "/health/live;/v1/models",
        "/health/live/",
        "/v1/models?path=/health/live",
        "/v1/models#/health/live",
        "http://localhost/v1/models",
        "/openapi.json",
        "/docs",
    ],
)
def test_authentication_bypass_by_the_path(locked, target):
    status, answer = asked(locked, get(target))
    assert status in (400, 401)
    assert NAME not in answer


@pytest.mark.parametrize(
    "header",
    [
        "Bearer ",
        "Bearer wrong",
        "Bearer correct-hors",
        "Bearer correct-horse2",
        "bearer",
        "correct-horse",
        "Basic !!!",
        "Basic Og==",
        "Digest correct-horse",
        "Bearer correct-horse,battery-staple",
    ],
)
def test_authentication_bypass_by_a_wrong_key(locked, header):
    status, answer = asked(locked, get("/v1/models", f"Authorization: {header}"))
    assert status == 401
    assert "www-authenticate" in answer.lower()


def test_the_right_keys_let_in(locked):
    for key in KEYS:
        assert asked(locked, get("/v1/models", f"Authorization: Bearer {key}"))[0] == 200


def test_comparing_keys_takes_the_same_time_for_all(monkeypatch):
    compared = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or compare(a, b))
    keys = Keys(KEYS)
    for given in (*KEYS, "wrong", ""):
        compared.clear()
        keys.tenant_of(f"Bearer {given}".encode())
        assert len(compared) == len(KEYS)
        assert all(len(a) == len(b) == 32 for a, b in compared), "digests are compared, not keys"
    assert not any(key in str(vars(keys)) for key in KEYS)


def test_remote_code_by_deserialisation(server):
    class Dangerous:
        def __reduce__(self):
            return (pytest.fail, ("it was run",))

    load = pickle.dumps(Dangerous())
    assert complete(server, load).status_code == 400
    wrapped = server.client.post("/v1/completions", content=load, headers={"content-type": "application/octet-stream"})
    assert wrapped.status_code == 415
    loaders = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    found = [each.place for each in modules() if each.room in ("server", "runtime") and loaders & set(each.imports())]
    assert not found
    calls = [
        (each.place, ast.unparse(node))
        for each in modules()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "pickle.load", "pickle.loads")
    ]
    assert all("weights_only=True" in text for _, text in calls), calls


def test_a_model_file_is_code():
    source = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(RequestRefused):
        ChatTemplate(source, {}).render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    trusting = [
        each.place
        for each in modules()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.keyword) and node.arg == "trust_remote_code" and ast.unparse(node.value) != "False"
    ]
    assert not trusting
    asserting = [
        each.place
        for each in modules()
        if each.room in ("server", "runtime", "hub")
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Assert)
    ]
    assert not asserting, "an assertion is gone under python -O"


def test_server_side_request_forgery(server):
    clients = {"urllib.request", "http.client", "httpx", "httpx2", "requests", "aiohttp", "urllib3", "ftplib"}
    found = [each.place for each in modules() if each.room == "server" and clients & set(each.imports())]
    assert not found, "the server has nothing to fetch with"
    address = "http://127.0.0.1:9/latest/meta-data"
    response = server.client.post("/v1/completions", json=ASK, headers={"X-Request-Id": address, "Referer": address})
    assert response.status_code == 200
    assert address not in response.headers["x-request-id"] + response.text
    for fields in ({"prompt": address}, {"user": address}, {"model": address}, {"url": address}):
        assert server.client.post("/v1/completions", json={**ASK, **fields}).status_code in (200, 404, 422)


def test_an_unauthenticated_control_plane(locked):
    schema = build_app(locked.context, Keys(KEYS)).openapi()
    routes = [(path, method.upper()) for path, methods in schema["paths"].items() for method in methods]
    assert len(routes) > 5
    for path, method in [*routes, ("/pause", "POST"), ("/update_weights", "POST"), ("/metrics", "GET"), ("/", "GET")]:
        response = locked.client.request(method, path, headers={"Authorization": ""})
        assert response.status_code == (200 if path in OPEN_PATHS else 401), (method, path)


@pytest.mark.parametrize("value", [-1, -(2**63), 2**31, 2**63, 2**64, 10**30, 1e308, -1e308, "../../etc/passwd", None])
@pytest.mark.parametrize(
    "field", ["max_tokens", "n", "logprobs", "top_k", "top_p", "min_tokens", "seed", "stop_token_ids", "model", "user"]
)
def test_memory_safety_by_parameters(server, field, value):
    for given in (value, [value], {"x": value}):
        response = server.client.post("/v1/completions", json={**ASK, field: given})
        assert response.status_code in (200, 400, 404, 422), response.text
        assert "root:" not in response.text
    assert server.service.health().is_alive


def test_an_information_leak_in_errors(monkeypatch):
    secret = "0x7f3bdeadbeef /srv/models/private"
    with served() as server:
        step = server.engine.step

        def fails():
            raise KeyError(secret)

        monkeypatch.setattr(server.service, "check", lambda _: fails())
        unforeseen = server.client.post("/v1/completions", json=ASK)
        monkeypatch.undo()
        server.engine.step = lambda: fails() if server.engine.has_work else step()
        died = server.client.post("/v1/completions", json=ASK)
        streamed = server.client.post("/v1/completions", json={**ASK, "stream": True})
    assert (unforeseen.status_code, died.status_code, streamed.status_code) == (500, 500, 503)
    for response in (unforeseen, died, streamed):
        assert not [part for part in (*secret.split(), "KeyError", "Traceback", ".py") if part in response.text]
        assert response.json()["error"]["type"] in ("server_error", "overloaded_error")
        assert "server" not in response.headers


def test_an_information_leak_through_the_prefix_cache(locked):
    cached = []
    for key in (KEYS[0], KEYS[0], KEYS[1]):
        headers = {"Authorization": f"Bearer {key}"}
        answer = locked.client.post("/v1/completions", headers=headers, json={**ASK, "prompt": [7] * 64}).json()
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == cached[2] == 0
    assert cached[1] > 0


def test_a_resource_leak():
    with served(stub_engine(max_rows=3)) as server:
        for _ in range(3):
            for fields in FIELDS:
                choices(server, **fields)
            for fields in ({"max_tokens": -1}, {"prompt": [999]}, {"model": "none"}):
                server.client.post("/v1/completions", json={**ASK, **fields})
            for _ in range(4):
                long = {**ASK, "max_tokens": 400, "ignore_eos": True, "stream": True}
                with server.client.stream("POST", "/v1/completions", json=long) as stream:
                    next(stream.iter_lines())
            choices(server)
        assert server.service.snapshot().running == 0
        assert server.context.switchboard.num_open == 0
        assert not vars(server.context.switchboard)["_inboxes"]
        assert not vars(server.context.switchboard)["_by_tenant"]
        assert not vars(server.service)["_open"]
        server.engine.pages.check()
        assert server.engine.pages.counts().held == 0
