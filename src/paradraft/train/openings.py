"""Varied openings of users' turns, drawn by a seed: whole requests, and first words for the target to go on from.

Left alone a small chat model writes much the same turns again and again. An opening says what kind of request it is to
be, about what, in which form, length and tone; the lists multiply to far more openings than a capture has turns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.train.opening_requests import FOLLOW_UPS, MANNERS_BEFORE, MANNERS_BEHIND, REQUESTS
from paradraft.train.opening_words import WORDS

_BLANK = re.compile(r"\{(\w+)\}")
_FIRST, _LATER = 1, 2  # streams of chance
_LOWER = 0.15  # share of openings without capitals, as many people type


@dataclass(frozen=True, kw_only=True, slots=True)
class OpeningMix:
    """How turns begin: shares of those with an opening, and among these of half-written ones."""

    openings: float
    half_written: float


def draw_opening(seed: int, mix: OpeningMix) -> str:
    """Return how a first turn begins, "" for one that the target begins itself; the same for the same seed."""
    chance = np.random.default_rng([_FIRST, seed])
    if chance.random() >= mix.openings:
        return ""
    request = _pick(REQUESTS[_pick(tuple(REQUESTS), chance)], chance)
    if request.endswith((".", "?")):
        request = _pick(MANNERS_BEHIND, chance).replace("{}", request)
    return _finished(_pick(MANNERS_BEFORE, chance).replace("{}", request), mix, chance)


def draw_follow_up(seed: int, mix: OpeningMix) -> str:
    """Return how a later turn begins, as draw_opening does for a first one."""
    chance = np.random.default_rng([_LATER, seed])
    if chance.random() >= mix.openings:
        return ""
    return _finished(_pick(FOLLOW_UPS, chance), mix, chance)


def _finished(template: str, mix: OpeningMix, chance: np.random.Generator) -> str:
    """Return a template with its blanks filled, cut off after a word where it is to be half-written."""
    text = _filled(template, chance)
    text = text.lower() if chance.random() < _LOWER else text[:1].upper() + text[1:]
    words = text.split(" ")
    if len(words) > 1 and chance.random() < mix.half_written:
        words = words[: int(chance.integers(max(len(words) // 3, 1), len(words)))]
    return " ".join(words)


def _filled(template: str, chance: np.random.Generator) -> str:
    while _BLANK.search(template):
        template = _BLANK.sub(lambda blank: _pick(WORDS[blank[1]], chance), template)
    return template


def _pick(choices: Sequence[str], chance: np.random.Generator) -> str:
    return choices[int(chance.integers(len(choices)))]
