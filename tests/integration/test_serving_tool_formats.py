"""Tools over HTTP with chat templates that know them: described, called, forced and answered in their own formats."""

from __future__ import annotations

import json

import pytest

from paradraft.server.options import ServerOptions
from support.scripted import scripted_engine
from support.serving import served
from support.templated_tokenizer import TEMPLATES, TemplatedTokenizer

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a place",
        "parameters": {"type": "object", "properties": {"at": {"enum": ["sea", "sky"]}}, "required": ["at"]},
    },
}
CALLED = {
    "hermes": 'Yes.\n<tool_call>\n{"name": "look", "arguments": {"at": "sea"}}\n</tool_call>',
    "llama3_json": '{"name": "look", "parameters": {"at": "sea"}}',
    "mistral": 'Yes.[TOOL_CALLS][{"name": "look", "arguments": {"at": "sea"}}]',
}
FORMS = sorted(CALLED)


def server_of(form: str, options: ServerOptions | None = None, template: str | None = None):
    script = (("elsewhere", "No, I will not."), CALLED[form])
    return served(scripted_engine(*script), tokenizer=TemplatedTokenizer(template or TEMPLATES[form]), options=options)


def ask(server, text: str = "Look!", **fields):
    body = {"messages": [{"role": "user", "content": text}], "tools": [LOOK], "temperature": 0, "max_tokens": 300}
    return server.client.post("/v1/chat/completions", json=body | fields)


def calls_of(response) -> list[tuple[str, dict]]:
    assert response.status_code == 200, response.text
    calls = response.json()["choices"][0]["message"].get("tool_calls", [])
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_the_templates_own_format_is_read(form):
    with server_of(form) as server:
        answer = ask(server)
        assert calls_of(answer) == [("look", {"at": "sea"})]
        assert answer.json()["choices"][0]["message"]["content"] == (None if form == "llama3_json" else "Yes.")
        message = answer.json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "blue"}
        asked = {"role": "user", "content": "Look!"}
        assert ask(server, messages=[asked, message, result]).status_code == 200


@pytest.mark.parametrize("form", FORMS)
def test_a_streamed_call_leaks_no_markers(form):
    with server_of(form) as server:
        body = {"messages": [{"role": "user", "content": "Look!"}], "tools": [LOOK], "temperature": 0, "stream": True}
        lines = server.client.post("/v1/chat/completions", json=body).text.split("\n\n")
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines if line.startswith("data: {")]
    assert "".join(each["delta"].get("content") or "" for each in choices) == ("" if form == "llama3_json" else "Yes.")
    assert [call["function"]["name"] for each in choices for call in each["delta"].get("tool_calls", [])] == ["look"]
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("several", [True, False])
def test_a_forced_call_comes_in_the_templates_own_format(form, several):
    with server_of(form) as server:
        answer = ask(server, "elsewhere", tool_choice="required", parallel_tool_calls=several, max_tokens=3000)
    calls = calls_of(answer)
    assert {name for name, _ in calls} == {"look"}
    assert len(calls) == 1 or several
    assert all(arguments["at"] in ("sea", "sky") for _, arguments in calls)


@pytest.mark.parametrize("form", FORMS)
def test_tools_are_described_by_the_template_and_only_where_they_may_be_called(form):
    with server_of(form) as server:
        tokenized = server.client.post(
            "/tokenize", json={"messages": [{"role": "user", "content": "Look!"}], "tools": [LOOK]}
        ).json()
        without = server.client.post("/tokenize", json={"messages": [{"role": "user", "content": "Look!"}]}).json()
        assert ask(server).json()["usage"]["prompt_tokens"] == tokenized["count"]
        assert ask(server, tool_choice="none").json()["usage"]["prompt_tokens"] == without["count"]
    text = bytes(token for token in tokenized["tokens"] if token < 256).decode()
    assert "Look at a place" in text
    assert bytes(without["tokens"]).decode() == "user: Look!\nassistant: "


@pytest.mark.parametrize("form", ["hermes", "llama3_json"])
def test_strict_tools_are_held_to_their_schemas(form):
    strict = {**LOOK, "function": {**LOOK["function"], "strict": True}}
    with server_of(form) as server:
        assert calls_of(ask(server, tools=[strict])) == [("look", {"at": "sea"})]
        assert ask(server, "elsewhere", tools=[strict]).json()["choices"][0]["message"]["content"] == "No, I will not."


def test_strict_is_refused_where_a_control_token_opens_calls():
    strict = {**LOOK, "function": {**LOOK["function"], "strict": True}}
    with server_of("mistral") as server:
        response = ask(server, tools=[strict])
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "tools"
        assert calls_of(ask(server, tools=[strict], tool_choice="required"))


def test_a_format_that_is_not_known_is_refused_unless_the_operator_names_one():
    with server_of("hermes", template=TEMPLATES["unknown"]) as server:
        response = ask(server)
        assert response.status_code == 400
        assert "--tool-format" in response.json()["error"]["message"]
    named = ServerOptions(tool_format="hermes")
    with server_of("hermes", options=named, template=TEMPLATES["unknown"]) as server:
        assert calls_of(ask(server)) == [("look", {"at": "sea"})]


def test_the_developer_is_the_system_where_the_template_knows_none():
    with server_of("hermes") as server:
        messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        tokens = server.client.post("/tokenize", json={"messages": messages}).json()["tokens"]
        assert bytes(tokens).decode() == "system: Be brief.\nuser: Hi\nassistant: "
