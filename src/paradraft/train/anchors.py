"""Where drafts start: the places of a text that training and simulation draft from.

An anchor is the last token that is known. Serving drafts after the first token of an answer at the earliest, so anchors
lie in the answer, and the token behind them as well.
"""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import IntArray, ints

_LOOP = 48  # tokens that have to repeat the ones a period before them for a place to count as looping
_LONGEST_PERIOD = 24


def all_anchors(prompt_len: int, length: int) -> IntArray:
    """Return every place of a text that a draft can start from, ascending."""
    return ints(np.arange(min(prompt_len, length), max(length - 1, 0)))


def draw_anchors(
    ids: IntArray, prompt_len: int, count: int, chance: np.random.Generator, *, skip_loops: bool = False
) -> IntArray:
    """Return up to `count` different places, ascending, all alike in chance.

    skip_loops: leave out places where the text has been repeating itself for long: looking it up is enough there.
    """
    places = all_anchors(prompt_len, len(ids))
    if skip_loops:
        places = places[~is_looping(ids)[places]]
    if len(places) <= count:
        return places
    return ints(np.sort(chance.choice(places, size=count, replace=False)))


def is_looping(ids: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each place whether the last tokens up to it repeat with a period of at most 24, [n]."""
    looping = np.zeros(len(ids), dtype=np.bool_)
    for period in range(1, min(_LONGEST_PERIOD, len(ids) - 1) + 1):
        same = np.concatenate([np.zeros(period, dtype=np.int64), ids[period:] == ids[:-period]])
        breaks = np.where(same == 0, np.arange(len(ids)), -1)
        looping |= np.arange(len(ids)) - np.maximum.accumulate(breaks) >= _LOOP
    return looping
