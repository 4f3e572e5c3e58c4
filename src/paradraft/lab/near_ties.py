"""First differences between two answers, and whether rounding explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.core.sampling import SamplingParams
from paradraft.lab.ports import Speaker

# Logits of passes of different shapes differ by rounding; a difference is a near-tie up to this logit margin.
NEAR_TIE = {"fp32": 1e-3, "fp16": 0.1, "bf16": 0.5}
_ALTERNATIVES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Where an answer first differs from plain decoding.

    margin: how far the less probable of the two tokens lies below the most probable one, in logits of the plain
    target at that position; None when tokens are sampled, where no logit margin explains a difference.
    """

    prompt: str
    position: int
    margin: float | None


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
    speaker: Speaker,
    name: str,
    prompt: Sequence[int],
    expected: Sequence[int],
    actual: Sequence[int],
    *,
    is_greedy: bool,
) -> Difference | None:
    """Return the first difference with its margin, measured by plain decoding on `speaker`; None if equal."""
    position = first_difference(expected, actual)
    if position is None:
        return None
    margin = None
    if is_greedy and position < min(len(expected), len(actual)):
        known = [*prompt, *expected[:position]]
        margin = _margin(speaker, known, (expected[position], actual[position]))
    return Difference(prompt=name, position=position, margin=margin)


def _margin(speaker: Speaker, known: list[int], tokens: tuple[int, int]) -> float:
    """Return the distance from the best token to the worse of two; a token that is not listed counts as the last."""
    params = SamplingParams(temperature=0.0, max_tokens=1, logprobs=_ALTERNATIVES, speculate=False, ignore_eos=True)
    [result] = speaker.generate([known], [params])
    logprobs = result.choices[0].logprobs or ()
    listed = {entry.token: entry.logprob for entry in (*logprobs[0].top, logprobs[0].chosen)}
    lowest = min(listed.values())
    return max(listed.values()) - min(listed.get(token, lowest) for token in tokens)
