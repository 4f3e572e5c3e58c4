"""First differences between two answers, and whether rounding explains them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import ints
from paradraft.core.sampling import MAX_LOGPROBS, SamplingParams
from paradraft.lab.ports import Speaker
from paradraft.verify.noise import GumbelNoise

# Logits of passes of different shapes differ by rounding; a difference is a near-tie up to this logit margin.
NEAR_TIE = {"fp32": 1e-3, "fp16": 0.1, "bf16": 0.5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Where an answer first differs from plain decoding.

    margin: how far the less favoured of the two tokens lies below the target's choice there, in logits of plain
    decoding, the seed's noise included when tokens are sampled. None where the target does not rank both tokens
    among its best hundred, or where one answer ended: no margin explains that.
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
    params: SamplingParams,
    *,
    expected: Sequence[int],
    actual: Sequence[int],
) -> Difference | None:
    """Return the first difference with its margin, measured by plain decoding on `speaker`; None if equal."""
    position = first_difference(expected, actual)
    if position is None:
        return None
    margin = None
    if position < min(len(expected), len(actual)):
        known = [*prompt, *expected[:position]]
        margin = _margin(_scores(speaker, known, params), (expected[position], actual[position]))
    return Difference(prompt=name, position=position, margin=margin)


def _scores(speaker: Speaker, known: list[int], params: SamplingParams) -> dict[int, float]:
    """Return what each of the best tokens scores in the choice after `known`, in logits."""
    one = SamplingParams(temperature=0.0, max_tokens=1, logprobs=MAX_LOGPROBS, speculate=False, ignore_eos=True)
    [result] = speaker.generate([known], [one])
    [logprobs] = result.choices[0].logprobs or ()
    listed = {entry.token: entry.logprob for entry in (*logprobs.top, logprobs.chosen)}
    if params.is_greedy:
        return listed
    # The coupled rule takes the largest logprob / temperature + noise (docs/exactness.md).
    noise = GumbelNoise(params.seed or 0, 0).gumbel(ints(list(listed)), position=len(known))
    return dict(zip(listed, np.array(list(listed.values())) + params.temperature * noise, strict=True))


def _margin(scores: Mapping[int, float], tokens: tuple[int, int]) -> float | None:
    if not all(token in scores for token in tokens):
        return None
    return float(max(scores.values()) - min(scores[token] for token in tokens))
