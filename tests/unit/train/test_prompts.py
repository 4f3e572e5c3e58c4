"""What a target is asked: prompts as they are served, and turns that it writes itself."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ModelError
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult
from paradraft.hub.prompts import Message, Prompt
from paradraft.train.overlap import Overlap
from paradraft.train.prompts import Task, held_out_texts, select, tasks_of, write_turns
from support.byte_tokenizer import ByteTokenizer
from support.speakers import result_of


class Author:
    """Says prepared texts, one for each request."""

    def __init__(self, *texts: str, finish: FinishReason = FinishReason.STOP) -> None:
        self.tokenizer = ByteTokenizer()
        self.texts, self.finish = texts, finish
        self.asked: list[tuple[list[list[int]], list[SamplingParams]]] = []

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        self.asked.append((prompts, params))
        return [
            result_of(prompt, [1], pieces=(text,), finish=self.finish)
            for prompt, text in zip(prompts, self.texts, strict=True)
        ]


def task(text: str, source: str = "file") -> Task:
    return Task(messages=(("user", text),), source=source)


def test_own_turns_begin_where_the_template_opens_the_users_turn() -> None:
    author = Author("Tell me about whales.", "How do bees find their way?")
    assert write_turns(author, count=2, seed=5) == ["Tell me about whales.", "How do bees find their way?"]
    [(prompts, params)] = author.asked
    assert {bytes(prompt) for prompt in prompts} == {b"user: "}
    assert [each.seed for each in params] == [5, 6]
    assert all(each.temperature == 1.0 for each in params)


def test_unfit_turns_are_left_out() -> None:
    author = Author(
        "  Tell me about whales. ",
        "Hi",
        "x" * 701,
        "12345 67890 12345",
        "Tell me about whales.",
        "bad \ufffd text here",
    )
    assert write_turns(author, count=6, seed=0) == ["Tell me about whales."]


def test_a_turn_that_was_cut_short_is_left_out() -> None:
    assert write_turns(Author("Tell me about whales.", finish=FinishReason.LENGTH), count=1, seed=0) == []


def test_a_template_without_an_opening_is_refused() -> None:
    author = Author("x")
    author.tokenizer.render_chat = lambda messages, **_: messages[0]["content"]  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="--own-turns 0"):
        write_turns(author, count=1, seed=0)


def test_repeated_and_held_out_prompts_are_left_out_and_counted() -> None:
    tasks = [
        task(text) for text in ("What is a cat?", "what is a CAT", "Name the moons of the planet Mars.", "Why so?")
    ]
    kept, left_out = select(tasks, Overlap(["Name the moons of the planet Mars"]), seed=0)
    assert sorted(each.text for each in kept) == ["What is a cat?", "Why so?"]
    assert left_out == {"repeated": 1, "held out": 1}


def test_the_order_is_drawn_from_the_seed() -> None:
    tasks = [task(f"Question number {number}") for number in range(50)]
    orders = [[each.text for each in select(tasks, Overlap([]), seed=seed)[0]] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_every_turn_of_a_held_out_conversation_is_held_out() -> None:
    prompt = Prompt(id="1", category="", turns=("First?", "Second?"), opening=(Message(role="user", content="Before"),))
    assert held_out_texts([prompt]) == ["First?", "Second?", "Before"]


def test_a_prompt_keeps_its_opening_and_is_encoded_in_the_chat_template() -> None:
    prompt = Prompt(id="1", category="", turns=("Why?", "So?"), opening=(Message(role="system", content="Be brief"),))
    [only] = tasks_of([prompt], "file")
    assert bytes(only.encode(ByteTokenizer())) == b"system: Be brief\nuser: Why?\nassistant: "
    assert only.source == "file"
