"""Tools over HTTP: calls that a scripted model makes, and calls that it is made to make."""

from __future__ import annotations

import json

import pytest

from paradraft.server.options import ServerOptions
from support.scripted import scripted_engine
from support.serving import served

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
ROME = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
SCRIPT = (
    ("two of them", f"Let me look.\n{ROME}\n{NOW}"),
    ("cut short", '<tool_call>\n{"name": "get_weather", "arg'),
    ("unknown one", '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call> done'),
    ("<tool_response>", "It rains."),
    ("Wrong city", ROME.replace("Rome", "Paris")),
    ("force", "I would rather talk about something else entirely."),
    ROME,
)


@pytest.fixture(scope="module")
def server():
    with served(scripted_engine(*SCRIPT)) as running:
        yield running


def ask(server, text: str, **fields) -> dict:
    body = {
        "messages": [{"role": "user", "content": text}],
        "tools": [WEATHER, CLOCK],
        "temperature": 0,
        "max_tokens": 300,
        **fields,
    }
    response = server.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def streamed(server, text: str, **fields) -> dict:
    body = {
        "messages": [{"role": "user", "content": text}],
        "tools": [WEATHER, CLOCK],
        "temperature": 0,
        "max_tokens": 300,
        "stream": True,
        **fields,
    }
    content, calls, reasons = "", {}, []
    with server.client.stream("POST", "/v1/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if not line or line == "data: [DONE]":
                continue
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            content += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", []):
                assert call["index"] not in calls
                calls[call["index"]] = (call["function"]["name"], call["function"]["arguments"])
            reasons.append(choice["finish_reason"])
    return {"content": content, "calls": [calls[index] for index in sorted(calls)], "reason": reasons[-1]}


def calls_of(choice: dict) -> list[tuple[str, dict]]:
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in choice["message"].get("tool_calls", [])
    ]


def test_a_call_is_told_as_one_and_not_as_text(server):
    choice = ask(server, "Weather?")
    assert calls_of(choice) == [("get_weather", {"city": "Rome"})]
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["id"].startswith("call_")


def test_two_calls_and_the_text_before_them_all_arrive(server):
    choice = ask(server, "Do two of them.")
    assert calls_of(choice) == [("get_weather", {"city": "Rome"}), ("clock", {})]
    assert choice["message"]["content"] == "Let me look."
    assert len({call["id"] for call in choice["message"]["tool_calls"]}) == 2


@pytest.mark.parametrize("text", ["Weather?", "Do two of them.", "One cut short.", "An unknown one."])
@pytest.mark.parametrize("gamma", [0, 3])
def test_a_stream_says_the_same_and_leaks_no_markers(server, text, gamma):
    whole = ask(server, text)
    parts = streamed(server, text, speculative={"gamma": gamma})
    assert parts["content"] == (whole["message"]["content"] or "")
    assert [(name, json.loads(arguments)) for name, arguments in parts["calls"]] == calls_of(whole)
    assert parts["reason"] == whole["finish_reason"]
    if parts["calls"]:
        assert "tool_call" not in parts["content"]


@pytest.mark.parametrize("text", ["One cut short.", "An unknown one."])
def test_what_is_no_call_of_a_tool_stays_text_to_the_letter(server, text):
    choice = ask(server, text)
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"] == next(each[1] for each in SCRIPT if each[0] in text)
    assert choice["finish_reason"] == "stop"


def test_a_call_cut_by_the_limit_is_text_and_says_so(server):
    choice = ask(server, "Weather?", max_tokens=20)
    assert choice["message"]["content"] == ROME[:20]
    assert choice["finish_reason"] == "length"


def test_one_call_at_most_where_more_are_not_wanted(server):
    fields = {"parallel_tool_calls": False}
    assert calls_of(ask(server, "Do two of them.", **fields)) == [("get_weather", {"city": "Rome"})]
    assert len(streamed(server, "Do two of them.", **fields)["calls"]) == 1


def test_without_choice_the_markers_are_text(server):
    choice = ask(server, "Weather?", tool_choice="none")
    assert choice["message"] == {"role": "assistant", "content": ROME, "refusal": None}
    assert choice["finish_reason"] == "stop"


def test_results_come_back_to_the_model(server):
    call = ask(server, "Weather?")["message"]
    messages = [
        {"role": "user", "content": "Weather?"},
        call,
        {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "rain"},
    ]
    assert ask(server, "", messages=messages)["message"]["content"] == "It rains."


@pytest.mark.parametrize("stream", [False, True])
def test_a_named_tool_is_called_whatever_the_model_would_rather_say(server, stream):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    fields = {"tool_choice": choice, "max_tokens": 400, "seed": 1, "temperature": 1}
    if stream:
        parts = streamed(server, "I force you.", **fields)
        calls, content = [(name, json.loads(arguments)) for name, arguments in parts["calls"]], parts["content"]
    else:
        answer = ask(server, "I force you.", **fields)
        calls, content = calls_of(answer), answer["message"]["content"] or ""
        assert answer["finish_reason"] == "tool_calls"
    assert content == ""
    assert [name for name, _ in calls] == ["get_weather"]
    assert calls[0][1]["city"] in ("Oslo", "Rome")


def test_required_calls_some_tool(server):
    answer = ask(server, "I force you.", tool_choice="required", parallel_tool_calls=False, max_tokens=400)
    assert len(calls_of(answer)) == 1
    assert answer["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"tools": []}, 422, "tools"),
        ({"tools": [{"type": "web_search"}]}, 422, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 422, "tools[0].function.name"),
        ({"tools": [CLOCK, CLOCK]}, 400, "tools"),
        ({"tool_choice": "any"}, 422, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "rm"}}}, 400, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, 400, "tools"),
        (
            {
                "tool_choice": "required",
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}],
            },
            400,
            "tools",
        ),
    ],
)
def test_what_cannot_be_done_with_tools_is_refused_by_name(server, fields, status, param):
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [WEATHER], **fields}
    response = server.client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.text


def test_arguments_sent_back_have_to_be_an_object(server):
    call = {"id": "a", "type": "function", "function": {"name": "clock", "arguments": "[1]"}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    response = server.client.post("/v1/chat/completions", json={"messages": messages})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages[1].tool_calls[0].function.arguments"


def test_a_schema_that_cannot_be_enforced_is_refused_with_its_keyword(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {"required": ["a"]}}}}
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [tool], "tool_choice": "required"}
    response = server.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert "not" in response.json()["error"]["message"]


def test_a_strict_tool_gets_arguments_of_its_schema_and_text_stays_free(server):
    strict = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    free = ask(server, "Weather?", messages=[{"role": "user", "content": "force"}], tools=[strict, CLOCK])
    assert free["message"]["content"] == SCRIPT[5][1]
    assert calls_of(ask(server, "Do two of them.", tools=[strict, CLOCK])) == [
        ("get_weather", {"city": "Rome"}),
        ("clock", {}),
    ]
    wrong = ask(server, "Wrong city.", tools=[strict], max_tokens=400)
    assert calls_of(wrong)[0][1]["city"] in ("Oslo", "Rome")
    assert calls_of(ask(server, "Wrong city.")) == [("get_weather", {"city": "Paris"})]


def test_an_unknown_format_is_refused_at_the_start():
    with pytest.raises(Exception, match="tool_format='xml'"):
        ServerOptions(tool_format="xml")
