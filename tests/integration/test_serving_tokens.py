"""/tokenize and /detokenize over HTTP."""

from __future__ import annotations

import pytest

from support.serving import served


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


def post(server, path: str, **fields):
    return server.client.post(path, json=fields)


def test_a_text_has_its_ids_and_comes_back(server):
    answer = post(server, "/tokenize", prompt="h\u00e9", return_token_strs=True).json()
    assert answer["tokens"] == [104, 195, 169]
    assert answer["count"] == 3
    assert answer["max_model_len"] == server.context.service.model.longest
    assert answer["token_strs"] == ["<0x68>", "<0xc3>", "<0xa9>"]
    assert post(server, "/detokenize", tokens=answer["tokens"]).json() == {"prompt": "h\u00e9"}


def test_a_conversation_has_the_ids_that_chat_answers(server):
    messages = [{"role": "user", "content": "Hi"}]
    answer = post(server, "/tokenize", messages=messages).json()
    assert bytes(answer["tokens"]) == b"user: Hi\nassistant: "
    assert answer["token_strs"] is None
    asked = server.client.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1}).json()
    assert asked["usage"]["prompt_tokens"] == answer["count"]
    open_ended = post(server, "/tokenize", messages=messages, add_generation_prompt=False).json()
    assert bytes(open_ended["tokens"]) == b"user: Hi\n"


def test_a_text_longer_than_the_context_is_still_counted(server):
    assert post(server, "/tokenize", prompt="x" * 30_000).json()["count"] == 30_000


def test_no_tokens_are_no_text(server):
    assert post(server, "/detokenize", tokens=[]).json() == {"prompt": ""}


@pytest.mark.parametrize(
    ("path", "fields", "status", "param"),
    [
        ("/tokenize", {}, 422, "prompt"),
        ("/tokenize", {"prompt": "x", "add_special": True}, 422, "add_special"),
        ("/tokenize", {"messages": [{"role": "bot", "content": "x"}]}, 422, "messages[0].role"),
        ("/tokenize", {"messages": [], "prompt": "x"}, 422, "messages"),
        ("/tokenize", {"prompt": "x", "model": "gpt-4"}, 404, "model"),
        ("/detokenize", {"tokens": [300]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 422, "tokens[0]"),
        ("/detokenize", {"tokens": [2**40]}, 422, "tokens[0]"),
        ("/detokenize", {"tokens": "x"}, 422, "tokens"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(server, path, fields, status, param):
    response = post(server, path, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.json()


def test_half_a_character_is_refused(server):
    body = b'{"prompt": "\\ud800"}'
    response = server.client.post("/tokenize", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_the_description_of_the_interface_has_every_route_and_its_fields(server):
    described = server.client.get("/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"} <= described["paths"].keys()
    assert described["components"]["schemas"]["ChatBody"]["additionalProperties"] is False
    assert "schema" in described["components"]["schemas"]["NamedSchema"]["properties"]
