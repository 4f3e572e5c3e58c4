"""Overlap with held-out texts: thirteen words in a row, whatever their case and punctuation."""

from __future__ import annotations

import pytest

from paradraft.train.overlap import NUM_WORDS, Overlap, words_of

LONG = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her friends."
)
WORDS = LONG.split()


def test_a_run_of_thirteen_words_taints_and_one_of_twelve_does_not() -> None:
    overlap = Overlap([LONG])
    words = words_of(LONG)
    run = " ".join(words[2 : 2 + NUM_WORDS])
    assert overlap.taints(f"Once upon a time {run} the end")
    shorter = " ".join(words[2 : 1 + NUM_WORDS])
    assert not overlap.taints(f"Once upon a time {shorter} the end")


def test_case_and_punctuation_do_not_hide_an_overlap() -> None:
    shouted = LONG.upper().replace(".", " !! ").replace(" ", "\n ")
    assert Overlap([LONG]).taints(f"Please solve: {shouted}")


def test_one_changed_word_in_the_middle_of_every_run_is_no_overlap() -> None:
    words = list(words_of(LONG))
    words[len(words) // 2] = "geese"
    assert not Overlap([LONG]).taints(" ".join(words))


def test_a_short_held_out_text_counts_as_a_whole() -> None:
    overlap = Overlap(["Write a poem about the sea", "Why?"])
    assert overlap.taints("Now, write a poem about the sea, please.")
    assert not overlap.taints("Write a poem about the mountains")
    assert overlap.taints("WHY")
    assert not overlap.taints("Why is the sky blue?")


@pytest.mark.parametrize("text", ["", "...", "word"])
def test_short_texts_are_clear_unless_they_are_held_out(text: str) -> None:
    assert not Overlap([LONG]).taints(text)
    assert Overlap([LONG, text]).taints(text)
