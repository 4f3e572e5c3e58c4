"""Calls read out of texts, whatever pieces the texts come in."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paradraft.server.tools.formats import FORMATS, HERMES, LLAMA3, MISTRAL, ToolFormat, format_shown_by
from paradraft.server.tools.parts import Call, Part
from paradraft.server.tools.reader import CallReader

KNOWN = {"look", "clock"}
LOOK = Call(name="look", arguments='{"at": "a } b </tool_call> \\" c"}')
CLOCK = Call(name="clock", arguments="{}")
WRITTEN = '{"name": "look", "arguments": {"at": "a } b </tool_call> \\" c"}}'
NOW = '{"name": "clock", "arguments": {}}'

# format, text -> parts
CASES: list[tuple[ToolFormat, str, list[Part]]] = [
    (HERMES, "no call, <b>only</b> text\n", ["no call, <b>only</b> text\n"]),
    (HERMES, f"<tool_call>\n{WRITTEN}\n</tool_call>", [LOOK]),
    (HERMES, f"Well.\n\n<tool_call>{WRITTEN}</tool_call>\n<tool_call>{NOW}</tool_call>\n", ["Well.", LOOK, CLOCK]),
    (HERMES, f"<tool_call>{WRITTEN}</tool_call> then", [LOOK, " then"]),
    (HERMES, f"<tool_call>{WRITTEN}", [LOOK]),
    (HERMES, f"<tool_call>{WRITTEN}<tool_call>{NOW}", [LOOK, CLOCK]),
    (HERMES, '<tool_call>{"name": "look", "argum', ['<tool_call>{"name": "look", "argum']),
    (HERMES, "a <tool_call> b </tool_call>", ["a <tool_call> b </tool_call>"]),
    (HERMES, 'a\n<tool_call>{"name": "rm", "arguments": {}}', ['a\n<tool_call>{"name": "rm", "arguments": {}}']),
    (HERMES, '<tool_call>{"name": "look", "arguments": [1]}', ['<tool_call>{"name": "look", "arguments": [1]}']),
    (
        HERMES,
        '<tool_call>{"name": "look", "arguments": {"a": NaN}}',
        ['<tool_call>{"name": "look", "arguments": {"a": NaN}}'],
    ),
    (
        HERMES,
        '<tool_call>{"name": "look", "arguments": {"a": 1e999}}',
        ['<tool_call>{"name": "look", "arguments": {"a": 1e999}}'],
    ),
    (
        HERMES,
        '<tool_call>{"name": "look", "arguments": {"a": "\\ud800"}}',
        ['<tool_call>{"name": "look", "arguments": {"a": "\\ud800"}}'],
    ),
    (HERMES, '<tool_call>{"name": "look", "arguments": "{\\"a\\": 1}"}', [Call(name="look", arguments='{"a": 1}')]),
    (HERMES, "<tool_call", ["<tool_call"]),
    (HERMES, " \n", [" \n"]),
    (LLAMA3, '{"name": "look", "parameters": {"at": 1}}', [Call(name="look", arguments='{"at": 1}')]),
    (LLAMA3, f"\n{NOW}; {NOW}", [CLOCK, CLOCK]),
    (LLAMA3, f"<|python_tag|>{NOW}", [CLOCK]),
    (LLAMA3, '{"city": "Rome"} is JSON', ['{"city": "Rome"} is JSON']),
    (LLAMA3, f"Look: {NOW}", [f"Look: {NOW}"]),
    (MISTRAL, f"[TOOL_CALLS][{NOW}, {WRITTEN}]", [CLOCK, LOOK]),
    (MISTRAL, f"Well. [TOOL_CALLS] [{NOW}]", ["Well.", CLOCK]),
    (
        MISTRAL,
        '[TOOL_CALLS]look[ARGS]{"at": 1}[TOOL_CALLS]clock[ARGS]{}',
        [Call(name="look", arguments='{"at": 1}'), CLOCK],
    ),
    (MISTRAL, "[TOOL_CALLS]clock[CALL_ID]abc123xyz[ARGS]{}", [CLOCK]),
    (MISTRAL, "[TOOL_CALLS]rm[ARGS]{}", ["[TOOL_CALLS]rm[ARGS]{}"]),
    (MISTRAL, "[TOOL_CALLS]what is this?\nIt", ["[TOOL_CALLS]what is this?\nIt"]),
]


def read(form: ToolFormat, pieces: list[str], *, is_inside: bool = False) -> list[Part]:
    reader = CallReader(form, KNOWN, is_inside=is_inside)
    parts = [part for piece in pieces for part in reader.feed(piece)] + reader.end()
    joined: list[Part] = []
    for part in parts:
        assert part != ""
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize(("form", "text", "parts"), CASES)
def test_the_same_calls_come_out_of_pieces_of_every_size(form: ToolFormat, text: str, parts: list[Part]) -> None:
    for size in (*range(1, 13), len(text)):
        assert read(form, cut(text, size)) == parts


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # texts are long where a machine is busy
@given(data=st.data())
def test_no_cutting_changes_what_is_read(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(FORMATS.values(), key=lambda each: each.name)))
    marks = [form.opening, form.closing or " ", ";", "{", "}", NOW, WRITTEN, "[", "]", "look", "[ARGS]", '"', "\n", "x"]
    text = "".join(data.draw(st.lists(st.sampled_from(marks), max_size=8)))
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[low:high] for low, high in zip([0, *places], [*places, len(text)], strict=True)]
    whole = read(form, [text])
    assert read(form, pieces) == whole
    if not any(isinstance(part, Call) for part in whole):
        assert "".join(map(str, whole)) == text


def test_text_is_told_as_soon_as_it_cannot_be_a_call() -> None:
    reader = CallReader(HERMES, KNOWN)
    assert reader.feed("Hello <too") == ["Hello"]
    assert reader.feed("th") == [" <tooth"]


def test_an_answer_that_begins_inside_a_call_needs_no_opening() -> None:
    assert read(HERMES, [WRITTEN], is_inside=True) == [LOOK]
    assert read(MISTRAL, [f"[{NOW}]"], is_inside=True) == [CLOCK]
    assert read(HERMES, [WRITTEN[:20]], is_inside=True) == [WRITTEN[:20]]


def test_arguments_are_json_again() -> None:
    text = '{"name": "look", "arguments": {"b": 1, "a": [1.5, null, "\u00e9"]}}'
    [call] = read(HERMES, [f"<tool_call>{text}"])
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == {"b": 1, "a": [1.5, None, "\u00e9"]}


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>\\n' + call }}", HERMES),
        ('Respond {"name": function name, "parameters": dictionary}', LLAMA3),
        ("{{ '[TOOL_CALLS]' }}", MISTRAL),
        ("<tool_call><function=name>", None),
        ("{{ tools }}", None),
    ],
)
def test_the_template_shows_the_format(template: str, form: ToolFormat | None) -> None:
    assert format_shown_by(template) is form
