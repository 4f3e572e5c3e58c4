"""Two models side by side on one text: what each would say next, and what that means for drafting.

Thresholds: a drafter should take at most 0.3 of the target's time per token, share its top 5 with a Jaccard overlap
of at least 0.45, and a wasted round should cost at most 1.5 target tokens.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from paradraft.core.errors import ModelError
from paradraft.core.events import TokenLogprobs
from paradraft.core.ports import Clock, Tokenizer
from paradraft.core.sampling import MAX_LOGPROBS, SamplingParams
from paradraft.lab.ports import Speaker
from paradraft.lab.ranked import Position, align, rank

SHOWN = 5
_LISTED = MAX_LOGPROBS
_GAMMA = 4
MAX_TIME_SHARE, MIN_JACCARD, MAX_FALLBACK = 0.3, 0.45, 1.5
_LEVELS = (
    (0.75, "promise: enough to commit to"),
    (0.65, "healthy"),
    (0.50, "usable, below healthy"),
    (0.40, "warning: drafting may not pay"),
)
BINS = (0.0, 0.1, 0.5, 1.0, 2.0, 10.0)  # lower ends of the histogram of p / q


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One of the two models."""

    name: str
    speaker: Speaker
    tokenizer: Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A figure beside its threshold."""

    name: str
    value: float
    bound: str
    is_met: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Positions of the prompt and of the target's greedy answer; figures are over the answer alone."""

    prompt: str
    answer: str
    positions: tuple[Position, ...]
    agreement: float  # share of positions where both would say the same: the greedy acceptance rate of one draft token
    overlap: float  # mean of sum(min(p, q)): the acceptance rate of a sampled draft token, a lower bound
    jaccard: float
    histogram: tuple[int, ...]  # counts of p / q of the drafter's first choice, by BINS
    verdict: str
    checks: tuple[Check, ...]


def compare_models(
    target: View, drafter: View, prompt_ids: Sequence[int], *, max_tokens: int = 32, clock: Clock = perf_counter
) -> Comparison:
    """Let the target answer greedily, then score prompt and answer with both models.

    Positions are matched by the bytes before them, so the tokenizers may differ; a boundary that only one has is
    left out. Raises ModelError if no position matches.
    """
    answer, target_time = _answer(target, list(prompt_ids), max_tokens, clock)
    whole = [*prompt_ids, *answer]
    text = target.tokenizer.decode(whole, skip_special=False)
    theirs = whole if _same_words(target, drafter, whole) else drafter.tokenizer.encode(text, add_special=False)
    _, drafter_time = _answer(drafter, theirs[: max(1, len(theirs) - len(answer))], max_tokens, clock)
    positions = align(
        rank(target.tokenizer, whole, _score(target, whole), answer_from=len(prompt_ids)),
        rank(drafter.tokenizer, theirs, _score(drafter, theirs), answer_from=0),
        shown=SHOWN,
    )
    spoken = [position for position in positions if position.is_answer]
    if not spoken:
        raise ModelError(
            f"{target.name} and {drafter.name} split the text at no common place.", remedy="Use a closer drafter."
        )
    agreement = statistics.fmean(position.agrees for position in spoken)
    jaccard = statistics.fmean(position.jaccard for position in spoken)
    return Comparison(
        prompt=target.tokenizer.decode(list(prompt_ids), skip_special=False),
        answer=target.tokenizer.decode(answer),
        positions=tuple(positions),
        agreement=agreement,
        overlap=statistics.fmean(position.overlap for position in spoken),
        jaccard=jaccard,
        histogram=_histogram([position.ratio for position in spoken]),
        verdict=verdict_of(agreement),
        checks=_checks(drafter_time / target_time, jaccard),
    )


def verdict_of(acceptance: float) -> str:
    """Return what an acceptance rate means: under 40 % refuse, under 50 % warn, 65 % healthy, 75 % promise."""
    return next((text for bound, text in _LEVELS if acceptance >= bound), "refuse: too far apart")


def _checks(time_share: float, jaccard: float) -> tuple[Check, ...]:
    fallback = 1 + _GAMMA * time_share
    return (
        Check(
            name="drafter time per token / target's",
            value=time_share,
            bound=f"at most {MAX_TIME_SHARE}",
            is_met=time_share <= MAX_TIME_SHARE,
        ),
        Check(
            name="Jaccard of the top 5", value=jaccard, bound=f"at least {MIN_JACCARD}", is_met=jaccard >= MIN_JACCARD
        ),
        Check(
            name=f"target tokens a round of {_GAMMA} wasted drafts costs",
            value=fallback,
            bound=f"at most {MAX_FALLBACK}",
            is_met=fallback <= MAX_FALLBACK,
        ),
    )


def _same_words(target: View, drafter: View, ids: Sequence[int]) -> bool:
    """Whether both vocabularies mean the same by every id in use."""
    ours, theirs = target.tokenizer, drafter.tokenizer
    return all(token < theirs.vocab_size and ours.spelling(token) == theirs.spelling(token) for token in set(ids))


def _answer(view: View, prompt: list[int], max_tokens: int, clock: Clock) -> tuple[list[int], float]:
    """Return a greedy answer and the seconds per token of a second, warm run."""
    params = SamplingParams(temperature=0.0, max_tokens=max_tokens, speculate=False)
    [result] = view.speaker.generate([prompt], [params])
    start = clock()
    view.speaker.generate([prompt], [params])
    answer = list(result.choices[0].token_ids)
    return answer, (clock() - start) / max(1, len(answer))


def _score(view: View, ids: list[int]) -> tuple[TokenLogprobs | None, ...]:
    params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=_LISTED, speculate=False)
    [result] = view.speaker.generate([ids], [params])
    return result.prompt_logprobs or ()


def _histogram(ratios: Sequence[float]) -> tuple[int, ...]:
    counts = [0] * len(BINS)
    for ratio in ratios:
        counts[max(place for place, low in enumerate(BINS) if ratio >= low)] += 1
    return tuple(counts)
