"""Prompt processing: the time until one token is out, arms taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from time import perf_counter

from paradraft.core.ports import Clock
from paradraft.core.sampling import SamplingParams
from paradraft.lab.bench.measures import Spread
from paradraft.lab.bench.plan import Arm, turn_order
from paradraft.lab.bench.records import PromptTime
from paradraft.lab.ports import Progress, unwatched
from paradraft.lab.prompts import PromptSet

_LENGTHS = (128, 512)


def measure_prompt_times(
    arms: Sequence[Arm],
    prompt_set: PromptSet,
    *,
    longest: int,
    repeats: int,
    clock: Clock = perf_counter,
    progress: Progress = unwatched,
) -> list[PromptTime]:
    """Time prompts of a few lengths, cut from the prompts of the set one after another, on every arm."""
    stream = [token for prompt in prompt_set.prompts for token in prompt.token_ids]
    times: dict[tuple[str, int], list[float]] = {}
    lengths = [length for length in _LENGTHS if length < min(longest, len(stream))]
    for number, length in enumerate(lengths):
        for turn in range(-1, repeats):
            progress(number * (repeats + 1) + turn + 1, len(lengths) * (repeats + 1))
            for arm in turn_order(arms, turn):
                seconds = _time(arm, stream[:length], clock)
                if turn >= 0:  # the first one warms up
                    times.setdefault((arm.name, length), []).append(seconds)
    return [
        PromptTime(arm=arm, prompt_tokens=length, seconds=_spread(values)) for (arm, length), values in times.items()
    ]


def _time(arm: Arm, prompt: list[int], clock: Clock) -> float:
    params = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True, speculate=arm.is_speculative)
    start = clock()
    arm.speaker.generate([prompt], [params])
    return clock() - start


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median=statistics.median(values), min=min(values), max=max(values))
