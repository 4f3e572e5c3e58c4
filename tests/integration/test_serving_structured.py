"""Answers held to a form over HTTP, by OpenAI's field and by vLLM's."""

from __future__ import annotations

import json
import re

import pytest

from support.scripted import scripted_engine
from support.serving import served

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "wet": {"type": "boolean"}},
    "required": ["city", "wet"],
    "additionalProperties": False,
}
NAMED = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA, "strict": True}}
LARK = 'start: ("Oslo" | "Rome") "!"'
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def server():
    with served(scripted_engine(("object", '{"a": [1, 2]}'), "I would rather talk.")) as running:
        yield running


def ask(server, path: str, text: str = "Well?", **fields):
    asked = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": f"{text} assistant: "}
    return server.client.post(path, json={**asked, "temperature": 0, "max_tokens": 400, **fields})


def text_of(response) -> str:
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    return choice["message"]["content"] if "message" in choice else choice["text"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": NAMED},
        {"structured_outputs": {"json": SCHEMA}},
        {"structured_outputs": {"json": json.dumps(SCHEMA)}},
        {"guided_json": SCHEMA},
    ],
)
def test_a_schema_is_kept(server, path, fields):
    answer = json.loads(text_of(ask(server, path, **fields)))
    assert answer["city"] in ("Oslo", "Rome")
    assert isinstance(answer["wet"], bool)


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"structured_outputs": {"regex": "[0-9]{4}-[0-9]{2}"}}, r"\d{4}-\d{2}"),
        ({"guided_regex": "[0-9]{4}-[0-9]{2}"}, r"\d{4}-\d{2}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"structured_outputs": {"grammar": LARK}}, "(Oslo|Rome)!"),
        ({"guided_grammar": LARK}, "(Oslo|Rome)!"),
    ],
)
def test_patterns_choices_and_grammars_are_kept(server, path, fields, pattern):
    assert re.fullmatch(pattern, text_of(ask(server, path, **fields)))


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "fields", [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}]
)
def test_an_object_is_any_object_and_the_models_own_where_it_is_one(server, path, fields):
    assert text_of(ask(server, path, "object", **fields)) == '{"a": [1, 2]}'


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_drafts_and_streams_change_nothing(server, path):
    whole = text_of(ask(server, path, response_format=NAMED, seed=3, temperature=1.0))
    plain = text_of(ask(server, path, response_format=NAMED, seed=3, temperature=1.0, speculative={"enabled": False}))
    assert plain == whole
    lines = ask(server, path, response_format=NAMED, seed=3, temperature=1.0, stream=True).text.split("\n\n")
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines if line.startswith("data: {")]
    pieces = [each["delta"].get("content", "") if "delta" in each else each["text"] for each in choices]
    assert "".join(pieces) == whole


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"response_format": {"type": "xml"}}, 422, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, 422, "response_format"),
        ({"response_format": {"type": "text", "json_schema": NAMED["json_schema"]}}, 422, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            422,
            "response_format.json_schema.schema",
        ),
        ({"structured_outputs": {"json_": {}}}, 422, "structured_outputs.json_"),
        ({"structured_outputs": {"structural_tag": "x"}}, 422, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"choice": []}}, 400, "structured_outputs.choice"),
        ({"structured_outputs": {"json": "{"}}, 400, "structured_outputs.json"),
        ({"response_format": NAMED, "guided_regex": "a"}, 400, "guided_regex"),
        ({"guided_regex": "a", "ignore_eos": True}, 400, "ignore_eos"),
        ({"guided_regex": "("}, 400, None),
        ({"guided_json": {"type": "object", "uniqueItems": True}}, 400, None),
        ({"guided_grammar": "x" * 70_000}, 400, "guided_grammar"),
    ],
)
def test_what_cannot_be_enforced_is_refused(server, path, fields, status, param):
    response = ask(server, path, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.text
    assert response.json()["error"]["message"]


def test_an_engine_without_grammars_says_so():
    with served() as server:
        response = ask(server, TEXT, response_format={"type": "json_object"})
        assert response.status_code == 400
        assert "grammar" in response.json()["error"]["message"]
