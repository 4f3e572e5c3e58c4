"""/v1/chat/completions over HTTP, against the engine's own answers."""

from __future__ import annotations

import json

import pytest

from support.scripted import scripted_engine
from support.serving import NAME, served

SAYS_HI = [{"role": "user", "content": "Hi"}]
ASK = {"model": NAME, "messages": SAYS_HI, "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


def post(server, **fields):
    return server.client.post("/v1/chat/completions", json={**ASK, **fields})


def chunks_of(server, **fields) -> list[dict]:
    body = {**ASK, "stream": True, **fields}
    with server.client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def completion_of(server, prompt: str, **fields) -> dict:
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, **fields}
    return server.client.post("/v1/completions", json=body).json()


def test_an_answer_goes_on_from_the_rendered_conversation(server):
    answer = post(server).json()
    alone = completion_of(server, "user: Hi\nassistant: ")
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": alone["choices"][0]["text"],
        "refusal": None,
    }
    assert answer["choices"][0]["finish_reason"] == alone["choices"][0]["finish_reason"]
    assert {**answer["usage"], "prompt_tokens_details": 0} == {**alone["usage"], "prompt_tokens_details": 0}


def test_a_stream_opens_with_the_role_and_adds_up_to_the_whole_answer(server):
    whole = post(server, logprobs=True, top_logprobs=2).json()["choices"][0]
    chunks = chunks_of(server, logprobs=True, top_logprobs=2)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(choice["delta"].get("content", "") for choice in choices) == whole["message"]["content"]
    told = [each for choice in choices[1:] for each in choice["logprobs"]["content"]]
    assert told == whole["logprobs"]["content"]
    assert [choice["finish_reason"] for choice in choices].count(None) == len(choices) - 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_usage_comes_last_and_only_if_asked_for(server):
    assert all("usage" not in chunk for chunk in chunks_of(server))
    chunks = chunks_of(server, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == post(server).json()["usage"]["completion_tokens"]


def test_several_choices_of_a_stream_have_their_indices(server):
    whole = post(server, n=3, temperature=0.8, seed=3).json()["choices"]
    streamed = ["", "", ""]
    for chunk in chunks_of(server, n=3, temperature=0.8, seed=3):
        for choice in chunk["choices"]:
            streamed[choice["index"]] += choice["delta"].get("content", "")
    assert streamed == [choice["message"]["content"] for choice in whole]
    assert len(set(streamed)) > 1


def test_logprobs_have_bytes_and_as_many_alternatives_as_were_asked_for(server):
    plain = post(server).json()["choices"][0]
    assert plain["logprobs"] is None
    answer = post(server, logprobs=True, top_logprobs=3).json()
    content = answer["choices"][0]["logprobs"]["content"]
    assert len(content) == answer["usage"]["completion_tokens"]
    for each in content:
        assert len(each["top_logprobs"]) == 3
        assert each["logprob"] <= 0
        assert each["top_logprobs"][0]["logprob"] >= each["logprob"]
        is_half = each["token"].startswith("bytes:\\x")
        assert bytes(each["bytes"]).decode("utf-8", "replace") == ("\ufffd" if is_half else each["token"])
    assert all(
        each["top_logprobs"] == [] for each in post(server, logprobs=True).json()["choices"][0]["logprobs"]["content"]
    )


@pytest.mark.parametrize("limit", [{"max_tokens": 3}, {"max_tokens": None, "max_completion_tokens": 3}])
def test_both_names_of_the_limit_hold(server, limit):
    assert post(server, **limit, ignore_eos=True).json()["usage"]["completion_tokens"] == 3


def test_parts_of_text_are_one_text(server):
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    assert (
        post(server, messages=[{"role": "user", "content": parts}]).json()["choices"] == post(server).json()["choices"]
    )


def test_a_conversation_that_clients_send_back_is_taken(server):
    message = post(server).json()["choices"][0]["message"]
    back = {**message, "annotations": None, "audio": None, "function_call": None, "tool_calls": None}
    answer = post(server, messages=[*SAYS_HI, back, {"role": "user", "content": "And?"}])
    assert answer.status_code == 200


def test_the_last_message_goes_on(server):
    messages = [*SAYS_HI, {"role": "assistant", "content": "Hello th"}]
    fields = {"messages": messages, "continue_final_message": True}
    answer = post(server, **fields, add_generation_prompt=False).json()
    assert (
        answer["choices"][0]["message"]["content"]
        == (completion_of(server, "user: Hi\nassistant: Hello th")["choices"][0]["text"])
    )
    assert post(server, **fields, add_generation_prompt=True).status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"temprature": 0}, 422, "temprature"),
        ({"messages": []}, 422, "messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, 422, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, 422, "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, 422, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "cache": 1}]}, 422, "messages[0].cache"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 422, "messages[0]"),
        ({"messages": [{"role": "user", "content": "x", "tool_call_id": "a"}]}, 422, "messages[0]"),
        ({"chat_template": "{{ 1 }}"}, 422, "chat_template"),
        ({"functions": []}, 422, "functions"),
        ({"audio": {"voice": "a"}}, 422, "audio"),
        ({"modalities": ["audio"]}, 422, "modalities[0]"),
        ({"reasoning_effort": "low"}, 422, "reasoning_effort"),
        ({"metadata": {"a": "b"}}, 422, "metadata"),
        ({"metadata": {"class": "code", "trace": "1"}}, 422, "metadata"),
        ({"metadata": {"class": "a b"}}, 422, "metadata.class"),
        ({"metadata": {"class": ""}}, 422, "metadata.class"),
        ({"metadata": {"class": "x" * 65}}, 422, "metadata.class"),
        ({"metadata": {"class": "code\n"}}, 422, "metadata.class"),
        ({"metadata": {"class": 3}}, 422, "metadata.class"),
        ({"metadata": "code"}, 422, "metadata"),
        ({"logprobs": 5}, 422, "logprobs"),
        ({"top_logprobs": 2}, 400, "top_logprobs"),
        ({"max_completion_tokens": 5}, 400, "max_completion_tokens"),
        ({"max_tokens": 0}, 422, "max_tokens"),
        ({"tool_choice": "auto"}, 400, "tool_choice"),
        ({"n": 17}, 400, "n"),
        ({"model": "gpt-4"}, 404, "model"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(server, fields, status, param):
    response = post(server, **fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param), error
    assert error["message"]


def test_other_parts_than_text_are_refused_by_their_kind_and_nothing_is_fetched(server):
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}
    response = post(server, messages=[{"role": "user", "content": [{"type": "text", "text": "See"}, part]}])
    assert response.status_code == 422
    assert "image_url" in response.json()["error"]["message"]
    assert response.json()["error"]["param"] == "messages[0].content"


def test_the_values_that_clients_send_by_default_change_nothing(server):
    neutral = {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logit_bias": None,
        "logprobs": False,
        "n": 1,
        "stop": None,
        "stream": False,
        "store": False,
        "service_tier": "auto",
        "modalities": ["text"],
        "metadata": {},
        "reasoning_effort": None,
        "response_format": {"type": "text"},
        "tools": None,
        "tool_choice": None,
        "parallel_tool_calls": None,
        "user": "somebody",
        "top_p": 1,
    }
    assert post(server, **neutral).json()["choices"] == post(server).json()["choices"]


@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_no_chunk_of_a_stream_holds_half_a_character(gamma):
    text = "\U0001f642\u4f60\u597d\U0001f468\u200d\U0001f469\u200d\U0001f467 ok"
    with served(scripted_engine(text)) as server:
        chunks = chunks_of(server, max_tokens=200, speculative={"gamma": gamma})
        cut = chunks_of(server, max_tokens=2, speculative={"gamma": gamma})
    pieces = [choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in cut) == "\ufffd"
