"""User turns that the target writes itself: where they begin, which are kept, and how some go on."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from paradraft.core.errors import ConfigError, ModelError
from paradraft.core.records import FinishReason
from paradraft.train.authoring import write_conversations
from paradraft.train.openings import OpeningMix, draw_follow_up, draw_opening
from paradraft.train.plan import CaptureOptions
from support.authors import Author, Says, conversing

FREE = CaptureOptions(own_turns=9, openings=0.0, follow_ups=0.0)
FOLLOWED = replace(FREE, follow_ups=1.0, max_prompt_len=400, max_tokens=50)
WHALES, BEES = "Tell me about whales.", "How do bees find their way?"


def author_of(*texts: str, finish: FinishReason = FinishReason.STOP) -> Author:
    """Return an author of prepared turns by their seeds."""
    return Author(lambda _, params: (texts[params.seed or 0], finish))


def test_own_turns_begin_where_the_template_opens_the_users_turn() -> None:
    author = author_of(WHALES, BEES)
    assert write_conversations(author, FREE, first=0, count=2) == [(WHALES,), (BEES,)]
    assert [prompt for prompt, _ in author.asked] == ["user: "] * 2
    assert [each.seed for _, each in author.asked] == [0, 1]
    assert all(each.temperature == 1.0 for _, each in author.asked)


def test_a_drawn_opening_is_part_of_the_turn_that_the_target_completes() -> None:
    options = replace(FREE, openings=1.0, half_written=0.5, seed=40)
    mix = OpeningMix(openings=1.0, half_written=0.5)
    author = Author(lambda *_: " and so on to the end.")
    said = write_conversations(author, options, first=3, count=20)
    openings = [draw_opening(43 + at, mix) for at in range(20)]
    assert [prompt for prompt, _ in author.asked] == [f"user: {opening}" for opening in openings]
    assert [texts[0] for texts in said] == [f"{opening} and so on to the end." for opening in openings]


def test_unfit_turns_are_left_out() -> None:
    texts = [f"  {WHALES} ", "Hi", "x" * 701, "12345 67890 12345", WHALES, "bad \ufffd text here"]
    assert write_conversations(author_of(*texts), FREE, first=0, count=6) == [(WHALES,)]


def test_a_turn_that_was_cut_short_is_left_out() -> None:
    author = author_of(WHALES, finish=FinishReason.LENGTH)
    assert write_conversations(author, FREE, first=0, count=1) == []


def test_a_conversation_goes_on_after_an_answer_of_whole_sentences() -> None:
    author = Author(conversing)
    said = write_conversations(author, FOLLOWED, first=0, count=3)
    assert said == [(f"Tell me of the number {at}", "It is large.", "And why so?") for at in range(3)]
    assert author.asked[3][0] == "user: Tell me of the number 0\nassistant: "
    assert author.asked[3][1].max_tokens == 50
    assert author.asked[6][0] == "user: Tell me of the number 0\nassistant: It is large.\nuser: "
    seeds = [each.seed for _, each in author.asked]
    assert len(set(seeds)) == len(seeds)


def test_later_turns_begin_with_drawn_openings_too() -> None:
    options = replace(FOLLOWED, openings=1.0, half_written=0.0)
    author = Author(lambda prompt, _: "I say this." if prompt.endswith("assistant: ") else " It is long enough.")
    said = write_conversations(author, options, first=0, count=5)
    mix = OpeningMix(openings=1.0, half_written=0.0)
    assert [texts[2] for texts in said] == [f"{draw_follow_up(at, mix)} It is long enough." for at in range(5)]


def test_only_so_large_a_share_goes_on() -> None:
    said = write_conversations(Author(conversing), replace(FOLLOWED, follow_ups=0.3), first=0, count=300)
    assert sum(len(texts) == 3 for texts in said) / len(said) == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize(
    "says",
    [
        lambda prompt, _: ("no sentence", FinishReason.LENGTH) if prompt.endswith("assistant: ") else WHALES,
        lambda prompt, _: ("", FinishReason.STOP) if prompt.endswith("assistant: ") else WHALES,
        lambda prompt, _: "?" if "assistant: It" in prompt else "It is." if "assistant" in prompt else WHALES,
    ],
)
def test_without_an_answer_or_a_second_turn_the_first_stays_alone(says: Says) -> None:
    assert write_conversations(Author(says), FOLLOWED, first=0, count=1) == [(WHALES,)]


def test_an_answer_leaves_room_in_the_longest_prompt() -> None:
    author = Author(conversing)
    assert len(write_conversations(author, replace(FOLLOWED, max_prompt_len=90), first=0, count=2)[0]) == 1
    assert not [prompt for prompt, _ in author.asked if "assistant" in prompt]


def test_parts_of_the_work_are_the_whole() -> None:
    options = replace(FOLLOWED, openings=0.7, follow_ups=0.5)
    whole = write_conversations(Author(conversing), options, first=0, count=12)
    parts = [write_conversations(Author(conversing), options, first=first, count=4) for first in (0, 4, 8)]
    assert whole == [each for part in parts for each in part]


def test_a_template_without_an_opening_is_refused() -> None:
    author = author_of("x")
    author.tokenizer.render_chat = lambda messages, **_: messages[0]["content"]  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="--own-turns 0"):
        write_conversations(author, FREE, first=0, count=1)


@pytest.mark.parametrize("name", ["openings", "half_written", "follow_ups"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_share_outside_its_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{name}={value}")):
        CaptureOptions(**{name: value})
