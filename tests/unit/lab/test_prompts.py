"""Prompt sets as they are measured."""

from __future__ import annotations

from paradraft.hub.prompts import Prompt as Task
from paradraft.lab.prompts import build_prompts
from support.byte_tokenizer import ByteTokenizer


def task(number: int, category: str, text: str) -> Task:
    return Task(id=str(number), category=category, turns=(text, "second turn"))


TASKS = [task(1, "a", "one"), task(2, "a", "two"), task(3, "b", "three"), task(4, "b", "four"), task(5, "b", "five")]


def test_a_limit_takes_some_of_each_category():
    prompt_set = build_prompts("test", TASKS, ByteTokenizer(), limit=3)
    assert [prompt.id for prompt in prompt_set.prompts] == ["1", "3", "2"]


def test_prompts_go_through_the_chat_template_with_their_first_turn_only():
    prompt_set = build_prompts("test", TASKS[:1], ByteTokenizer())
    assert bytes(prompt_set.prompts[0].token_ids) == b"user: one\nassistant: "


def test_raw_prompts_are_encoded_as_they_stand():
    prompt_set = build_prompts("test", TASKS[:1], ByteTokenizer(), is_raw=True)
    assert bytes(prompt_set.prompts[0].token_ids) == b"one"


def test_a_repeated_prompt_is_left_out_and_named_since_it_would_replay_its_answer():
    prompt_set = build_prompts("test", [*TASKS[:2], task(9, "a", "one")], ByteTokenizer())
    assert [prompt.id for prompt in prompt_set.prompts] == ["1", "2"]
    assert prompt_set.repeated == ("9",)


def test_a_prompt_without_category_counts_under_the_name_of_its_set():
    assert build_prompts("mine", [task(1, "", "one")], ByteTokenizer()).prompts[0].category == "mine"


def test_the_hash_changes_with_any_token():
    first = build_prompts("test", TASKS, ByteTokenizer())
    assert first.sha256 == build_prompts("other name", TASKS, ByteTokenizer()).sha256
    assert first.sha256 != build_prompts("test", TASKS, ByteTokenizer(), is_raw=True).sha256
