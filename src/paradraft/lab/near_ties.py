"""First differences between two answers, and whether rounding explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.core.arrays import FloatArray
from paradraft.core.sampling import SamplingParams
from paradraft.lab.ports import Plain
from paradraft.verify.margins import Margin, margin_at_best, margin_of_races
from paradraft.verify.noise import GumbelNoise

# Logits of passes of different shapes differ by rounding; a difference is a near-tie up to this logit margin.
NEAR_TIE = {"fp32": 1e-3, "fp16": 0.1, "bf16": 0.5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Where an answer first differs from plain decoding.

    margin: how far the less favoured of the two tokens is from being the target's choice there, in logits of plain
    decoding (verify.margins), the seed's noise included when tokens are sampled; place: in which comparison. None
    where one answer ended: no margin explains that.
    """

    prompt: str
    position: int
    margin: float | None
    place: str | None = None


def near_tie_bound(dtype: str) -> float:
    """Return the largest margin that counts as a near-tie for computations in this dtype."""
    return NEAR_TIE.get(dtype, NEAR_TIE["fp32"])


def is_near_tie(difference: Difference, bound: float) -> bool:
    """Whether rounding explains the difference."""
    return difference.margin is not None and difference.margin <= bound


def first_difference(expected: Sequence[int], actual: Sequence[int]) -> int | None:
    """Return the first position where the tokens differ or one answer has ended, None for equal answers."""
    if tuple(expected) == tuple(actual):
        return None
    pairs = enumerate(zip(expected, actual, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(expected), len(actual)))


def explain(
    plain: Plain,
    name: str,
    prompt: Sequence[int],
    params: SamplingParams,
    *,
    expected: Sequence[int],
    actual: Sequence[int],
) -> Difference | None:
    """Return the first difference with its margin, measured by plain decoding; None if equal.

    params: a temperature and a seed; cuts and penalties are not looked at.
    """
    position = first_difference(expected, actual)
    if position is None:
        return None
    if position >= min(len(expected), len(actual)):
        return Difference(prompt=name, position=position, margin=None)
    known = [*prompt, *expected[:position]]
    margin = _margin(plain.logits_after(known), params, len(known), (expected[position], actual[position]))
    return Difference(prompt=name, position=position, margin=margin.size, place=margin.place)


def _margin(logits: FloatArray, params: SamplingParams, position: int, tokens: tuple[int, int]) -> Margin:
    if params.is_greedy:
        return margin_at_best(logits, tokens)
    noise = GumbelNoise(params.seed or 0, 0).at(position)
    return margin_of_races(logits, params.temperature, noise, tokens)
