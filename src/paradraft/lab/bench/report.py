"""Turns the runs of a benchmark into its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.lab.bench.compare_arms import Speedup, differences_from_plain, speedup
from paradraft.lab.bench.measures import (
    acceptance_by_position,
    bucket_name,
    counts_of,
    latency,
    mean_draft_len,
    steps_of,
    tokens_per_second,
)
from paradraft.lab.bench.plan import CONTROL, PLAIN, Arm, BenchPlan
from paradraft.lab.bench.records import FORMAT, ArmReport, BenchReport, PromptTime, Slice
from paradraft.lab.bench.run import Run
from paradraft.lab.near_ties import near_tie_bound
from paradraft.lab.ports import Plain
from paradraft.lab.prompts import PromptSet
from paradraft.lab.provenance import Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a report is made from."""

    arms: Sequence[Arm]
    plain: Plain  # what answers the arm of that name
    runs: Sequence[Run]
    prompt_set: PromptSet
    plan: BenchPlan
    prompt_processing: Sequence[PromptTime] = ()
    notes: Sequence[str] = ()  # to stand among the warnings


def build_report(measured: Measured, provenance: Provenance, *, baselines: Sequence[str] = (PLAIN,)) -> BenchReport:
    """Turn runs into figures; margins of differences are measured here, outside the timed runs."""
    plan, prompt_set = measured.plan, measured.prompt_set
    bound = near_tie_bound(provenance.dtype)
    reports: list[ArmReport] = []
    speedups: list[Speedup] = []
    for concurrency in plan.concurrency:
        group = [_report_arm(measured, arm, concurrency) for arm in measured.arms]
        differences = {report.name: report.differences for report in group}
        runs = [run for run in measured.runs if run.cell.concurrency == concurrency]
        speedups += [
            speedup(
                runs,
                arm.name,
                baseline,
                differences=[*differences[arm.name], *differences[baseline]],
                bound=bound,
                prompt_set=prompt_set,
                plan=plan,
            )
            for baseline in baselines
            for arm in measured.arms
            if arm.name != baseline and (arm.name != CONTROL or baseline == PLAIN)
        ]
        reports += group
    return BenchReport(
        format=FORMAT,
        provenance=provenance,
        plan=plan,
        prompt_set=prompt_set.name,
        prompt_sha256=prompt_set.sha256,
        prompt_ids=tuple(prompt.id for prompt in prompt_set.prompts),
        repeated_prompts=prompt_set.repeated,
        near_tie_bound=bound,
        arms=tuple(reports),
        speedups=tuple(speedups),
        prompt_processing=tuple(measured.prompt_processing),
        warnings=tuple(_warnings(measured, reports, speedups)),
    )


def _report_arm(measured: Measured, arm: Arm, concurrency: int) -> ArmReport:
    plan, prompt_set = measured.plan, measured.prompt_set
    same_load = [run for run in measured.runs if run.cell.concurrency == concurrency]
    own = [run for run in same_load if run.arm == arm.name]
    full = [run for run in own if run.cell.max_tokens == plan.max_tokens]
    stats = counts_of(full)
    tokens, seconds = sum(run.num_tokens for run in full), sum(run.seconds for run in full)
    differences = differences_from_plain(same_load, arm.name, prompt_set, plan, measured.plain)
    verbs = sorted({verb for run in full for verb in run.verb_seconds})
    return ArmReport(
        name=arm.name,
        concurrency=concurrency,
        gamma=arm.gamma,
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens_per_second(full),
        requests_per_second=sum(len(run.token_ids) for run in full) / seconds,
        latency=latency(full),
        tau=stats.tau,
        acceptance_rate=stats.acceptance_rate,
        effective_acceptance_rate=stats.effective_acceptance_rate,
        acceptance_by_position=acceptance_by_position(stats),
        mean_draft_len=mean_draft_len(stats),
        steps=steps_of(stats, mean_draft_len(stats) if arm.gamma is None else arm.gamma),
        break_even_tau=_break_even(full, [run for run in same_load if run.arm == PLAIN], stats.tau, plan),
        preemptions=stats.preemptions,
        by_output_length=tuple(_slices(own, [bucket_name(run.cell.max_tokens) for run in own])),
        by_category=tuple(_slices(full, [prompt_set.prompts[run.cell.prompts[0]].category for run in full]))
        if concurrency == 1
        else (),
        identical_to_plain=not differences,
        differences=tuple(differences),
        seconds_by_verb={verb: sum(run.verb_seconds.get(verb, 0.0) for run in full) for verb in verbs},
    )


def _slices(runs: Sequence[Run], names: Sequence[str]) -> list[Slice]:
    slices = []
    for name in dict.fromkeys(names):
        own = [run for run, label in zip(runs, names, strict=True) if label == name]
        stats = counts_of(own)
        slices.append(
            Slice(
                name=name,
                tokens=sum(run.num_tokens for run in own),
                seconds=sum(run.seconds for run in own),
                tokens_per_second=tokens_per_second(own),
                tau=stats.tau,
                acceptance_rate=stats.acceptance_rate,
            )
        )
    return slices


def _break_even(full: Sequence[Run], plain: Sequence[Run], tau: float, plan: BenchPlan) -> float | None:
    """Return tau times (plain speed / own speed): the tokens per pass that pay for this arm's dearer passes."""
    baseline = [run for run in plain if run.cell.max_tokens == plan.max_tokens]
    if tau <= 1.0 or not baseline:
        return None
    return tau * tokens_per_second(baseline).median / tokens_per_second(full).median


def _warnings(measured: Measured, reports: Sequence[ArmReport], speedups: Sequence[Speedup]) -> list[str]:
    warnings = list(measured.notes)
    if measured.prompt_set.repeated:
        warnings.append(
            f"{len(measured.prompt_set.repeated)} repeated prompts were left out: repeats flatter drafters."
        )
    for report in reports:
        where = f"{report.name} at concurrency {report.concurrency}"
        propose, score = (report.seconds_by_verb.get(verb, 0.0) for verb in ("propose", "score"))
        if propose > score:
            warnings.append(f"{where}: drafting takes longer ({propose:.2f} s) than scoring ({score:.2f} s).")
        if report.preemptions:
            warnings.append(f"{where}: {report.preemptions} preemptions; raise kv_tokens for a clean figure.")
        if report.tau > 1.0 and report.acceptance_rate > 0.99:
            warnings.append(f"{where}: nearly every draft is accepted; look for answers that loop.")
    return warnings + [
        f"Plain decoding differs from itself by {abs(entry.ratio.median - 1):.0%} at concurrency "
        f"{entry.concurrency}: the machine is busy, repeat when it is idle."
        for entry in speedups
        if entry.arm == CONTROL and entry.ratio and not 0.97 <= entry.ratio.median <= 1.03
    ]


def worst_category(entry: Speedup) -> tuple[str, float] | None:
    """Return the category with the lowest speed-up."""
    if not entry.by_category:
        return None
    name = min(entry.by_category, key=lambda key: entry.by_category[key].median)
    return name, entry.by_category[name].median
