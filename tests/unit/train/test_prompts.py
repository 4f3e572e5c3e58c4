"""What a target is asked, as it is served."""

from __future__ import annotations

from paradraft.hub.prompts import Message, Prompt
from paradraft.train.overlap import Overlap
from paradraft.train.prompts import Task, held_out_texts, select, tasks_of
from support.byte_tokenizer import ByteTokenizer


def task(text: str, source: str = "file") -> Task:
    return Task(messages=(("user", text),), source=source)


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
