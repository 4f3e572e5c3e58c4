"""How far a choice of the coupled rule is from falling on another token: the margins of both races and of their border.

Everything is in logits, T times the logarithm of how the finishing times compare: a logit that moves by d moves its
token's finishing time by a factor of e**(d / T), and the tail's by no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.verify.noise import HEAD, GumbelsAt
from paradraft.verify.ranking import Ranking

LOGITS = "logits"  # at temperature 0
FIRST_RACE = "first race"  # of the HEAD most probable ids and the tail as one
TAIL_RACE = "tail race"  # among the ids of the tail
BORDER = "border"  # between head and tail: who takes part in which race


@dataclass(frozen=True, slots=True, order=True)
class Margin:
    """A distance in logits, and what it is the distance from."""

    size: float
    place: str


def margin_at_best(logits: FloatArray, tokens: Iterable[int]) -> Margin:
    """Return how far the least favoured of some tokens lies below the largest of logits [V]."""
    return Margin(float(logits.max()) - float(min(logits[token] for token in tokens)), LOGITS)


def margin_of_races(logits: FloatArray, temperature: float, noise: GumbelsAt, tokens: Iterable[int]) -> Margin:
    """Return how close to being chosen the least favoured of some tokens is, by logits [V] without cuts.

    If every one of them is the choice by some logits that differ from these by d at most, then it is at most 2 d
    (docs/exactness.md): no speed, mass or rank moves by more than its logits do. The opposite does not hold.
    """
    races = _Races(logits, temperature, noise)
    return max(races.margin(token) for token in tokens)


class _Races:
    """Both races of one position, in logits: the larger the faster."""

    def __init__(self, logits: FloatArray, temperature: float, noise: GumbelsAt) -> None:
        size = len(logits)
        values = logits.astype(np.float64)
        self._speeds: DoubleArray = values + temperature * noise.of(np.arange(size, dtype=np.int32))
        self._is_head = np.zeros(size, dtype=np.bool_)
        self._is_head[Ranking(logits).largest(HEAD)] = True
        last, first = values[self._is_head].min(), values[~self._is_head].max(initial=-np.inf)
        self._to_cross: DoubleArray = np.where(self._is_head, values - first, last - values)
        self._tail = _log_sum(values[~self._is_head], temperature) + temperature * noise.of_tail()

    def margin(self, token: int) -> Margin:
        """Return the margin of a token by the easier of the two ways in which it can be chosen."""
        return min(self._as_one_of_the_head(token), self._as_one_of_the_tail(token))

    def _as_one_of_the_head(self, token: int) -> Margin:
        own = float(self._speeds[token])
        to_tail = Margin(max(self._tail - own, 0.0), FIRST_RACE)
        return max(self._to_take_side(token, is_head=True), to_tail, self._to_beat_all(own, FIRST_RACE, is_head=True))

    def _as_one_of_the_tail(self, token: int) -> Margin:
        return max(
            self._to_take_side(token, is_head=False),
            self._to_beat_all(self._tail, FIRST_RACE, is_head=True, besides=token),
            self._to_beat_all(float(self._speeds[token]), TAIL_RACE, is_head=False),
        )

    def _to_take_side(self, token: int, *, is_head: bool) -> Margin:
        return Margin(0.0 if self._is_head[token] == is_head else float(self._to_cross[token]), BORDER)

    def _to_beat_all(self, own: float, race: str, *, is_head: bool, besides: int = -1) -> Margin:
        """Return what it takes that none of a side is faster: each is caught up with, or leaves the side."""
        rivals = np.flatnonzero((self._is_head == is_head) & (self._speeds > own))
        rivals = rivals[rivals != besides]
        behind, to_cross = self._speeds[rivals] - own, self._to_cross[rivals]
        needed = np.minimum(behind, to_cross)
        if not len(needed):
            return Margin(0.0, race)
        worst = int(needed.argmax())
        return Margin(float(needed[worst]), race if behind[worst] <= to_cross[worst] else BORDER)


def _log_sum(values: DoubleArray, temperature: float) -> float:
    """Return temperature * log(sum(exp(values / temperature))), -inf for none."""
    if not len(values):
        return -np.inf
    peak = float(values.max())
    return peak + temperature * float(np.log(np.exp((values - peak) / temperature).sum()))
