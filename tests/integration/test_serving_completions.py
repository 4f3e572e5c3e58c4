"""/v1/completions over HTTP, against the engine's own answers."""

from __future__ import annotations

import json

import pytest

from paradraft.core.sampling import SamplingParams
from paradraft.server.options import ServerOptions
from support.engines import ids_of, request, run
from support.fake_drafters import OracleDrafter
from support.serving import BYTES, NAME, served, stub_engine
from support.stub_target import hashed_law

ASK = {"model": NAME, "prompt": [72, 105], "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


def post(server, **fields):
    return server.client.post("/v1/completions", json={**ASK, **fields})


def chunks_of(server, **fields) -> list[dict]:
    with server.client.stream("POST", "/v1/completions", json={**ASK, "stream": True, **fields}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def engine_alone(prompt: list[int], params: SamplingParams, *, seed: int = 0) -> list[int]:
    return ids_of(run(stub_engine(), request("alone", prompt, params, seed=seed))[("alone", 0)])


def test_an_answer_is_the_engines(server):
    answer = post(server).json()
    ids = engine_alone([72, 105], SamplingParams(temperature=0.0, max_tokens=12))
    assert answer["object"] == "text_completion"
    assert answer["model"] == NAME
    assert answer["usage"]["completion_tokens"] == len(ids)
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["choices"][0]["finish_reason"] in ("length", "stop")


def test_a_seed_gives_the_same_sample_with_and_without_drafts(server):
    plain = post(server, temperature=0.9, seed=5, speculative={"enabled": False}).json()
    drafted = post(server, temperature=0.9, seed=5).json()
    again = post(server, temperature=0.9, seed=6).json()
    assert plain["choices"][0]["text"] == drafted["choices"][0]["text"]
    assert again["choices"][0]["text"] != drafted["choices"][0]["text"]


def test_a_stream_adds_up_to_the_whole_answer(server):
    whole = post(server, logprobs=2).json()["choices"][0]
    chunks = chunks_of(server, logprobs=2)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [value for choice in choices for value in choice["logprobs"]["token_logprobs"]] == (
        whole["logprobs"]["token_logprobs"]
    )
    assert [choice["finish_reason"] for choice in choices].count(None) == len(choices) - 1
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_usage_comes_last_and_only_if_asked_for(server):
    assert all("usage" not in chunk for chunk in chunks_of(server))
    chunks = chunks_of(server, stream_options={"include_usage": True})
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == post(server).json()["usage"]["completion_tokens"]


def test_several_prompts_and_choices_keep_their_order(server):
    answer = post(server, prompt=[[72], [73]], n=2, temperature=0.8, seed=3).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    alone = post(server, prompt=[72], n=2, temperature=0.8, seed=3).json()
    assert [choice["text"] for choice in answer["choices"][:2]] == [choice["text"] for choice in alone["choices"]]


def test_echo_with_logprobs_scores_the_prompt(server):
    prompt = list(b"hello")
    answer = post(server, prompt=prompt, echo=True, logprobs=1, max_tokens=0).json()["choices"][0]
    assert answer["text"] == "hello"
    assert answer["logprobs"]["tokens"] == ["h", "e", "l", "l", "o"]
    assert answer["logprobs"]["token_logprobs"][0] is None
    assert all(value <= 0 for value in answer["logprobs"]["token_logprobs"][1:])
    assert answer["logprobs"]["text_offset"] == [0, 1, 2, 3, 4]


def test_speculation_is_told_on_request_only(server):
    assert "metrics" not in post(server).json()
    metrics = post(server, speculative={"stats": True}).json()["metrics"]["speculative_decoding"]
    assert sum(metrics["acceptance_histogram"]) == metrics["num_spec_steps"]
    assert metrics["num_accepted_draft_tokens"] <= metrics["num_draft_tokens"]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"temprature": 0}, 422, "temprature"),
        ({"temperature": "0"}, 422, "temperature"),
        ({"temperature": -1}, 422, "temperature"),
        ({"n": 10**9}, 422, "n"),
        ({"n": 17}, 400, "n"),
        ({"best_of": 4}, 422, "best_of"),
        ({"suffix": "x"}, 422, "suffix"),
        ({"model": "gpt-4"}, 404, "model"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": -1}, 422, "max_tokens"),
        ({"prompt": [[1]] * 65}, 400, "prompt"),
        ({"logit_bias": {"x": 1}}, 400, "logit_bias"),
        ({"speculative": {"gamma": 4, "gama": 4}}, 422, "speculative.gama"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(server, fields, status, param):
    response = post(server, **fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param)
    assert error["message"]
    assert error["type"]


@pytest.mark.parametrize("prompt", [[], "", [[]], [1, 300], [-1], [2**40], [True]])
def test_prompts_that_are_none_are_refused(server, prompt):
    response = post(server, prompt=prompt)
    assert response.status_code in (400, 422)
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_errors_of_the_server_itself_have_the_same_shape(server):
    wrong_path = server.client.get("/v1/nothing")
    wrong_method = server.client.get("/v1/completions")
    wrong_type = server.client.post("/v1/completions", content=b"prompt=x")
    no_json = server.client.post("/v1/completions", content=b"{", headers={"content-type": "application/json"})
    statuses = [response.status_code for response in (wrong_path, wrong_method, wrong_type, no_json)]
    assert statuses == [404, 405, 415, 400]
    for response in (wrong_path, wrong_method, wrong_type, no_json):
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("way", ["spread", "rhythm"])
def test_smoothing_changes_when_a_stream_is_sent_and_not_what(server, way):
    whole = post(server, n=2, temperature=0.8, seed=3).json()["choices"]
    with served(options=ServerOptions(smoothing=way, smoothing_ms=5)) as smoothed:
        chunks = chunks_of(smoothed, n=2, temperature=0.8, seed=3)
    told = [choice for chunk in chunks for choice in chunk["choices"]]
    for choice in whole:
        own = [piece for piece in told if piece["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in own) == choice["text"]
        assert [piece["finish_reason"] for piece in own if piece["finish_reason"]] == [choice["finish_reason"]]


def test_a_fixed_beat_sends_packets_of_whole_blocks():
    with (
        served(options=ServerOptions(smoothing="rhythm", smoothing_ms=5)) as smoothed,
        smoothed.client.stream("POST", "/v1/completions", json={**ASK, "stream": True}) as response,
    ):
        body = b"".join(response.iter_raw())
    assert len(body) % 1024 == 0


def test_a_request_says_which_sources_draft():
    with served(stub_engine(drafter=OracleDrafter(hashed_law(BYTES)))) as server:

        def drafted(source: object) -> int:
            answer = post(server, speculative={"drafter": source, "stats": True})
            return answer.json()["metrics"]["speculative_decoding"]["num_draft_tokens"]

        assert drafted("none") == drafted([]) == 0
        assert drafted("auto") == drafted("fake") == drafted(["fake"]) > 0
        error = post(server, speculative={"drafter": "medusa"}).json()["error"]
    assert (error["param"], "auto, none, fake" in error["message"]) == ("speculative.drafter", True)
