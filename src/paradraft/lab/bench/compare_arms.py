"""Arms against a baseline: equal answers, and a speed-up only where answers and lengths allow one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from paradraft.lab.bench.measures import bucket_name
from paradraft.lab.bench.plan import PLAIN, BenchPlan, sampling_of
from paradraft.lab.bench.run import Run
from paradraft.lab.near_ties import Difference, explain, is_near_tie
from paradraft.lab.ports import Plain
from paradraft.lab.prompts import PromptSet

_RESAMPLES = 2000
_CONFIDENCE = (2.5, 97.5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """A speed-up: median over paired repeats, with the 95 % bootstrap interval over them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """An arm against a baseline at one concurrency; `refused` tells why there is no ratio."""

    arm: str
    baseline: str
    concurrency: int
    ratio: Ratio | None = None
    refused: str | None = None
    by_category: dict[str, Ratio] = field(default_factory=dict)  # with one row at a time only
    by_output_length: dict[str, Ratio] = field(default_factory=dict)


def differences_from_plain(
    runs: Sequence[Run], arm: str, prompt_set: PromptSet, plan: BenchPlan, plain: Plain
) -> list[Difference]:
    """Return the first difference of each prompt from plain decoding in the same cell, over all repeats."""
    expected = {run.cell: run.token_ids for run in reversed(runs) if run.arm == PLAIN}
    found: dict[tuple[int, int], Difference] = {}
    for run in (run for run in runs if run.arm == arm):
        for place, index in enumerate(run.cell.prompts):
            key = (run.cell.max_tokens, index)
            if key in found:
                continue
            prompt = prompt_set.prompts[index]
            difference = explain(
                plain,
                prompt.id,
                prompt.token_ids,
                sampling_of(plan, index, run.cell.max_tokens),
                expected=expected[run.cell][place],
                actual=run.token_ids[place],
            )
            if difference:
                found[key] = difference
    return list(found.values())


def speedup(
    runs: Sequence[Run],
    arm: str,
    baseline: str,
    *,
    differences: Sequence[Difference],
    bound: float,
    prompt_set: PromptSet,
    plan: BenchPlan,
) -> Speedup:
    """Compare the runs of two arms at one concurrency; `differences` are those of both from plain decoding."""
    ours = [run for run in runs if run.arm == arm]
    theirs = [run for run in runs if run.arm == baseline]
    full = [run for run in ours if run.cell.max_tokens == plan.max_tokens]
    concurrency = full[0].cell.concurrency
    refused = refusal(ours, theirs, differences, bound)
    if refused:
        return Speedup(arm=arm, baseline=baseline, concurrency=concurrency, refused=refused)

    def category(run: Run) -> str:
        return prompt_set.prompts[run.cell.prompts[0]].category

    groups = _ratios(full, theirs, category) if concurrency == 1 else {}
    return Speedup(
        arm=arm,
        baseline=baseline,
        concurrency=concurrency,
        ratio=_ratios(full, theirs, _everything)["all"],
        by_category=groups,
        by_output_length=_ratios(ours, theirs, lambda run: bucket_name(run.cell.max_tokens)),
    )


def refusal(ours: Sequence[Run], theirs: Sequence[Run], differences: Sequence[Difference], bound: float) -> str | None:
    """Return why no speed-up may be printed, None if it may."""
    failed = sum(run.num_failed for run in (*ours, *theirs))
    if failed:
        return f"{failed} answers failed"
    ours_by_key = {(run.cell, run.repeat): run for run in ours}
    theirs_by_key = {(run.cell, run.repeat): run for run in theirs}
    if ours_by_key.keys() != theirs_by_key.keys():
        return "the arms did not run the same cells"
    lengths = [[len(ids) for ids in run.token_ids] for run in ours_by_key.values()]
    other_lengths = [[len(ids) for ids in theirs_by_key[key].token_ids] for key in ours_by_key]
    if lengths != other_lengths:
        return "token counts differ"
    real = [difference for difference in differences if not is_near_tie(difference, bound)]
    if real:
        margin = real[0].margin
        how = (
            "no margin explains"
            if margin is None
            else f"a margin of {margin:.4g} leaves unexplained ({real[0].place}, near-tie bound {bound:g})"
        )
        return f"prompt {real[0].prompt} differs from plain decoding at token {real[0].position}, which {how}"
    return None


def _everything(_run: Run) -> str:
    return "all"


def _ratios(ours: Sequence[Run], theirs: Sequence[Run], group_of: Callable[[Run], str]) -> dict[str, Ratio]:
    """Return baseline seconds by own seconds per group, paired by repeat."""
    base = {(run.cell, run.repeat): run.seconds for run in theirs}
    sums: dict[str, dict[int, list[float]]] = {}
    for run in ours:
        pair = sums.setdefault(group_of(run), {}).setdefault(run.repeat, [0.0, 0.0])
        pair[0] += base[run.cell, run.repeat]
        pair[1] += run.seconds
    return {group: bootstrap([a / b for a, b in repeats.values()]) for group, repeats in sums.items()}


def bootstrap(ratios: Sequence[float]) -> Ratio:
    """Return the median of paired ratios and its percentile bootstrap interval, resampled with a fixed seed."""
    values = np.array(ratios)
    picks = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[picks], axis=1), _CONFIDENCE)
    return Ratio(median=statistics.median(ratios), low=float(low), high=float(high))
