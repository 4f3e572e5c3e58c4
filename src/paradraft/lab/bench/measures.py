"""Figures of one arm: throughput, tau, acceptance. Every definition stands in docs/benchmarking.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from paradraft.core.events import GenerationStats
from paradraft.lab.bench.run import Run

BUCKETS = ((1, 10), (11, 64), (65, 256), (257, None))


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """A figure over the repeats."""

    median: float
    min: float
    max: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Seconds until a cell was answered whole."""

    mean: float
    p50: float
    p99: float
    deviation: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Decoding passes per row, measured, and predicted from the acceptance rate for the same tokens."""

    measured: int
    predicted: float
    predicted_speed_up: float  # if a pass with drafts cost what a plain one costs and drafting were free


def add_stats(parts: Iterable[GenerationStats]) -> GenerationStats:
    """Return the sum of the counts; figures of a sum are means weighted by tokens, not means of rates."""
    listed = list(parts)

    def total(name: str) -> int:
        return sum(getattr(part, name) for part in listed)

    def columns(name: str) -> tuple[int, ...]:
        return tuple(map(sum, zip_longest(*(getattr(part, name) for part in listed), fillvalue=0)))

    return GenerationStats(
        passes=total("passes"),
        rounds=total("rounds"),
        round_tokens=total("round_tokens"),
        drafted=total("drafted"),
        accepted=total("accepted"),
        dropped=total("dropped"),
        recomputed=total("recomputed"),
        drafted_by_depth=columns("drafted_by_depth"),
        accepted_by_depth=columns("accepted_by_depth"),
        refused_by_depth=columns("refused_by_depth"),
        drafted_by_source=columns("drafted_by_source"),
        accepted_by_source=columns("accepted_by_source"),
        cached_prompt_tokens=total("cached_prompt_tokens"),
        preemptions=total("preemptions"),
    )


def counts_of(runs: Iterable[Run]) -> GenerationStats:
    """Return the counts of all answers of the runs."""
    return add_stats(stats for run in runs for stats in run.stats)


def acceptance_by_position(stats: GenerationStats) -> tuple[float, ...]:
    """Return, for each draft depth, the share of drafts reaching it whose node there was accepted."""
    pairs = zip_longest(stats.accepted_by_depth, stats.drafted_by_depth, fillvalue=0)
    return tuple(accepted / drafted if drafted else 0.0 for accepted, drafted in pairs)


def tokens_per_second(runs: Sequence[Run]) -> Spread:
    """Return the spread, over the repeats, of all tokens by all seconds of a repeat; prompts are in the seconds."""
    rates = []
    for repeat in sorted({run.repeat for run in runs}):
        own = [run for run in runs if run.repeat == repeat]
        rates.append(sum(run.num_tokens for run in own) / sum(run.seconds for run in own))
    return Spread(median=statistics.median(rates), min=min(rates), max=max(rates))


def latency(runs: Sequence[Run]) -> Latency:
    """Return the distribution of the seconds of the runs."""
    seconds = np.array([run.seconds for run in runs])
    return Latency(
        mean=float(seconds.mean()),
        p50=float(np.percentile(seconds, 50)),
        p99=float(np.percentile(seconds, 99)),
        deviation=float(seconds.std()),
    )


def steps_of(stats: GenerationStats, gamma: float) -> Steps:
    """Return measured rounds beside tokens / (1 + gamma * acceptance), both over rounds that were not cut short."""
    per_step = 1 + gamma * stats.acceptance_rate
    return Steps(measured=stats.rounds, predicted=stats.round_tokens / per_step, predicted_speed_up=per_step)


def mean_draft_len(stats: GenerationStats) -> float:
    """Return the drafted nodes per decoding round, the gamma that was really used."""
    return stats.drafted / stats.rounds if stats.rounds else 0.0


def bucket_name(length: int) -> str:
    """Return the bucket of an output length in tokens."""
    for low, high in BUCKETS:
        if low <= length and (high is None or length <= high):
            return f"{low}-{high}" if high else f"over {low - 1}"
    return "none"
