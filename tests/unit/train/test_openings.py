"""Openings of users' turns: drawn by a seed, varied, some half-written, and nobody's test questions."""

from __future__ import annotations

import re

import pytest

from paradraft.train.diversity import measure_diversity
from paradraft.train.opening_requests import FOLLOW_UPS, MANNERS_BEFORE, MANNERS_BEHIND, REQUESTS
from paradraft.train.opening_words import WORDS
from paradraft.train.openings import OpeningMix, draw_follow_up, draw_opening

ALWAYS = OpeningMix(openings=1.0, half_written=0.0)
HALF = OpeningMix(openings=1.0, half_written=1.0)
TEMPLATES = [*FOLLOW_UPS, *MANNERS_BEFORE, *MANNERS_BEHIND, *(each for kind in REQUESTS.values() for each in kind)]


@pytest.mark.parametrize("draw", [draw_opening, draw_follow_up])
def test_an_opening_follows_from_its_seed_alone(draw) -> None:
    assert [draw(seed, ALWAYS) for seed in range(50)] == [draw(seed, ALWAYS) for seed in range(50)]
    assert len({draw(seed, ALWAYS) for seed in range(50)}) > 30


def test_every_blank_has_words_and_every_list_is_used() -> None:
    texts = [*TEMPLATES, *(word for words in WORDS.values() for word in words)]
    blanks = {name for text in texts for name in re.findall(r"\{(\w+)\}", text)}
    assert blanks == set(WORDS)


def test_no_blank_is_left_open() -> None:
    said = [draw(seed, ALWAYS) for draw in (draw_opening, draw_follow_up) for seed in range(3000)]
    assert not [text for text in said if re.search(r"[{};]|\s\s|^\s|\s$", text)]


def test_openings_hardly_ever_repeat() -> None:
    said = [draw_opening(seed, ALWAYS) for seed in range(2000)]
    assert len(set(said)) > 1800
    found = measure_diversity(said[:300])
    assert found.distinct_openings > 0.6
    assert found.near_duplicates < 0.2


def test_the_mix_decides_how_many_turns_have_an_opening_and_are_half_written() -> None:
    mix = OpeningMix(openings=0.6, half_written=0.5)
    said = [(draw_opening(seed, mix), draw_opening(seed, ALWAYS)) for seed in range(2000)]
    begun = [pair for pair in said if pair[0]]
    assert len(begun) / len(said) == pytest.approx(0.6, abs=0.04)
    assert all(whole.startswith(text) for text, whole in begun)
    assert sum(text != whole for text, whole in begun) / len(begun) == pytest.approx(0.5, abs=0.08)
    assert not any(draw_opening(seed, OpeningMix(openings=0.0, half_written=1.0)) for seed in range(20))


def test_a_half_written_turn_ends_at_a_word() -> None:
    for seed in range(200):
        half, whole = draw_opening(seed, HALF), draw_opening(seed, ALWAYS)
        assert (whole + " ").startswith(half + " ")
        assert half
