"""Bodies of many lists, or of lists deep in one another, are refused before they are parsed."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paradraft.server.errors import ApiError
from paradraft.server.guards import bodies
from paradraft.server.guards.bodies import BodyGuard
from paradraft.server.guards.nesting import NestingBound
from paradraft.server.options import ServerOptions
from paradraft.server.schema.chat import ChatBody
from paradraft.server.schema.completions import CompletionBody
from paradraft.server.schema.tokens import TokensToText

BOUND = NestingBound(max_lists=20, max_depth=8)
DOCUMENTS = st.recursive(
    st.none() | st.integers(0, 9) | st.text('ab[]{}"\\\n', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('k[{"\\', max_size=4), inner, max_size=4),
    max_leaves=40,
)


def refusal(body: bytes, bound: NestingBound = BOUND) -> str | None:
    try:
        bound.check(body)
    except ApiError as error:
        return error.code
    return None


def size(document: object) -> tuple[int, int]:
    """Return how many lists and objects there are, and how deep they lie, by walking through them."""
    if not isinstance(document, list | dict):
        return 0, 0
    inner = [size(each) for each in (document.values() if isinstance(document, dict) else document)]
    return 1 + sum(count for count, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def test_both_bounds_are_exact():
    assert refusal(orjson.dumps([[]] * 19 + [0])) is None  # 20 with the outer one
    assert refusal(orjson.dumps([{}] * 20)) == "too_many_lists"
    assert refusal(b"[" * 8 + b"]" * 8) is None
    assert refusal(b'{"a":' * 9 + b"0" + b"}" * 9) == "too_deep"


@given(DOCUMENTS)
def test_brackets_in_texts_do_not_count(document):
    body = orjson.dumps(document)
    count, depth = size(document)
    exact = NestingBound(max_lists=max(1, count), max_depth=max(1, depth))
    assert refusal(body, exact) is None
    if count > 1:
        assert refusal(body, NestingBound(max_lists=count - 1, max_depth=100)) == "too_many_lists"
    if depth > 1:
        assert refusal(body, NestingBound(max_lists=100, max_depth=depth - 1)) == "too_deep"


def test_a_refusal_names_the_number_the_bound_and_what_to_do():
    with pytest.raises(
        ApiError, match=r"26 lists and objects, more than this server's limit of 20\. Send fewer"
    ) as one:
        BOUND.check(orjson.dumps([[]] * 25))
    assert one.value.status == 400
    with pytest.raises(ApiError, match=r"9 deep, more than this server's limit of 8\. Make it flatter"):
        BOUND.check(b"[" * 9 + b"]" * 9)


@pytest.mark.parametrize("body", [b"", b'"', b"]" * 100, b"[" * 9, b"[]" * 9 + b"]" * 100, b'"[[[[[[[[['])
def test_what_is_no_json_ends_without_an_error_of_the_server(body):
    refusal(body)


def test_a_refused_body_is_never_parsed(monkeypatch):
    monkeypatch.setattr(bodies.orjson, "loads", lambda _: pytest.fail("it was parsed"))
    sent: list[Any] = []

    async def app(*_):
        pytest.fail("it was passed on")

    async def receive():
        return {"type": "http.request", "body": b"[" + b"[]," * 500_000 + b"[]]"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")], "state": {}}
    asyncio.run(BodyGuard(app, options=ServerOptions())(scope, receive, send))
    assert sent[0]["status"] == 400
    assert b'"code":"too_many_lists"' in sent[1]["body"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (ChatBody, {"messages": [{"role": "user", "content": [{}] * 100}]}),
        (ChatBody, {"messages": [{"role": "user", "content": "x"}], "modalities": [None] * 100}),
        (CompletionBody, {"prompt": [1], "guided_choice": [None] * 100}),
        (CompletionBody, {"prompt": [1], "structured_outputs": {"choice": [None] * 100}}),
        (TokensToText, {"tokens": [None] * 100}),
    ],
)
def test_a_list_without_a_bound_tells_of_its_first_mistake_alone(body, fields):
    with pytest.raises(ValidationError) as refused:
        body.model_validate(fields)
    assert refused.value.error_count() < 5
