"""Streams and prompts as users hold them: unread, dropped, aborted from a hook, and of any integer type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ModelError, RequestRefused
from paradraft.core.events import TokenEvent
from paradraft.core.records import FinishReason
from paradraft.models.tiny import write_tiny_model

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
PROMPTS = ["one two one two one", "a", "b c"]


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)
    with LLM(str(folder), dtype="fp32", kv_tokens=2048, seed=5) as engine:
        yield engine


@pytest.fixture(autouse=True)
def nothing_is_left(llm: LLM) -> Iterator[None]:
    yield
    assert not llm.engine.has_work
    assert llm.engine.pages.counts().held == 0


def test_a_stream_that_nobody_reads_leaves_nothing_in_the_engine(llm: LLM) -> None:
    stream = llm.stream(PROMPTS[0], GREEDY)
    assert not llm.engine.has_work
    del stream


def test_a_stream_dropped_half_way_does_not_disturb_another(llm: LLM) -> None:
    kept, dropped = llm.stream(PROMPTS[0], GREEDY), llm.stream(PROMPTS[1], GREEDY)
    text = next(kept).text
    next(dropped)
    del dropped
    text += "".join(event.text for event in kept)
    assert text == llm.generate(PROMPTS[0], GREEDY)[0].text


def test_generating_while_a_stream_is_open_loses_none_of_its_events(llm: LLM) -> None:
    expected = llm.generate(PROMPTS[0], GREEDY)[0].text
    stream = llm.stream(PROMPTS[0], GREEDY)
    text = next(stream).text
    llm.generate(PROMPTS[1:], GREEDY)
    assert text + "".join(event.text for event in stream) == expected


def test_a_stream_refuses_at_once(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="no tokens"):
        llm.stream([], GREEDY)


def test_an_abort_from_a_hook_ends_the_call_with_what_there_is(llm: LLM) -> None:
    seen: list[TokenEvent] = []

    def stop_early(event: TokenEvent) -> None:
        seen.append(event)
        if len(seen) == 2:
            llm.engine.abort(event.request_id)

    one_by_one = replace(GREEDY, speculate=False)  # accepted drafts might end the answer before the hook does
    choice = llm.generate(PROMPTS[1], one_by_one, on_event=stop_early)[0].choices[0]
    assert choice.finish_reason is FinishReason.ABORT
    assert choice.token_ids == tuple(token for event in seen for token in event.token_ids)


def test_a_hook_may_generate_something_else(llm: LLM) -> None:
    expected = [result.text for result in llm.generate(PROMPTS, GREEDY)]
    inner: list[str] = []

    def ask(event: TokenEvent) -> None:
        if not inner:
            inner.append(llm.generate(PROMPTS[1], GREEDY)[0].text)

    assert [result.text for result in llm.generate(PROMPTS, GREEDY, on_event=ask)] == expected
    assert inner == [expected[1]]


def test_events_of_one_step_come_in_the_order_of_the_prompts(llm: LLM) -> None:
    order: list[str] = []
    llm.generate([*PROMPTS, "d", "e"], GREEDY, on_event=lambda event: order.append(event.request_id))
    first = [int(request_id.removeprefix("request-")) for request_id in order[:5]]
    assert first == sorted(first)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda ids: np.array(ids, dtype=np.int32)])
def test_token_ids_may_be_any_sequence_of_whole_numbers(llm: LLM, kind: type) -> None:
    ids = llm.tokenizer.encode(PROMPTS[0])
    expected = llm.generate(PROMPTS[0], GREEDY)[0].choices[0].token_ids
    assert llm.generate(kind(ids), GREEDY)[0].choices[0].token_ids == expected
    assert llm.generate([kind(ids), PROMPTS[0]], GREEDY)[1].choices[0].token_ids == expected


@pytest.mark.parametrize("prompt", [[1.5, 2.5], [1, None], [None], [1, "x"]])
def test_what_is_no_token_id_is_refused_and_not_rounded(llm: LLM, prompt: list[object]) -> None:
    with pytest.raises(RequestRefused, match="token ids"):
        llm.generate([prompt], GREEDY)


@pytest.mark.parametrize("token", [-1, 2**31, 2**40, 10_000])
def test_an_id_outside_the_vocabulary_is_refused_by_value(llm: LLM, token: int) -> None:
    with pytest.raises(RequestRefused, match=f"{token}"):
        llm.generate([[1, token]], GREEDY)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user"}],
        [{"content": "x"}],
        [{"role": "user", "content": [{"type": "image", "image": "cat.png"}]}],
        ["hello"],
    ],
)
def test_messages_are_texts_and_no_other_content_is_dropped_silently(llm: LLM, messages: list[dict[str, str]]) -> None:
    with pytest.raises(RequestRefused, match="messages"):
        llm.chat(messages, GREEDY)


def test_a_closed_engine_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 2)
    llm = LLM(str(folder), dtype="fp32", kv_tokens=256)
    stream = llm.stream("x", GREEDY)
    next(stream)
    llm.close()
    llm.close()
    with pytest.raises(RequestRefused, match="closed"):
        llm.generate("x", GREEDY)
    with pytest.raises(RequestRefused, match="closed"):
        llm.stream("x", GREEDY)
    assert [event.finish_reason for event in stream] == [FinishReason.ERROR]


def test_a_model_that_never_loaded_leaves_no_object_to_close() -> None:
    with pytest.raises(ModelError, match="no-such-model"):
        LLM("no-such-model/")
