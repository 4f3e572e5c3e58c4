"""The report of a benchmark in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from paradraft.cli.console import out
from paradraft.lab.bench.compare_arms import Ratio, Speedup
from paradraft.lab.bench.plan import CONTROL
from paradraft.lab.bench.records import ArmReport, BenchReport
from paradraft.lab.bench.report import worst_category


def show_report(report: BenchReport) -> None:
    """Print arms, speed-ups (or why there is none), short outputs, differences and warnings."""
    console = out()
    plan, machine = report.plan, report.provenance.machine
    console.print(
        f"{report.provenance.model.get('name')}, {report.provenance.dtype}, {len(report.prompt_ids)} prompts of "
        f"{report.prompt_set} ({report.prompt_sha256[:12]}), {plan.max_tokens} tokens each, temperature "
        f"{plan.temperature:g}, {plan.repeats} repeats, {machine.get('cpu')} with {machine.get('cores')} cores",
        markup=False,
    )
    console.print()
    console.print(_arms(report.arms))
    console.print()
    for arm in report.arms:
        if arm.acceptance_by_position:
            shares = " ".join(f"{share:.2f}" for share in arm.acceptance_by_position)
            console.print(f"{arm.name}, {_rows(arm.concurrency)}: accepted by draft position {shares}", markup=False)
    console.print()
    for entry in report.speedups:
        _show_speedup(console, entry)
    if report.prompt_processing:
        console.print()
        for time in report.prompt_processing:
            console.print(f"prompt of {time.prompt_tokens} tokens: {time.arm} {time.seconds.median:.3f} s")
    _show_differences(console, report)
    for warning in report.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)


def _arms(arms: Sequence[ArmReport]) -> Table:
    titles = ("arm", "rows", "tokens/s", "range", "tau", "accepted", "effective", "steps", "foretold")
    rows = [
        (
            arm.name,
            str(arm.concurrency),
            f"{arm.tokens_per_second.median:.1f}",
            f"{arm.tokens_per_second.min:.1f}-{arm.tokens_per_second.max:.1f}",
            f"{arm.tau:.2f}",
            f"{arm.acceptance_rate:.1%}",
            f"{arm.effective_acceptance_rate:.1%}",
            str(arm.steps.measured),
            f"{arm.steps.predicted:.0f}",
        )
        for arm in arms
    ]
    return _table(titles, rows)


def _show_speedup(console: Console, entry: Speedup) -> None:
    where = f"{entry.arm} over {entry.baseline}, {_rows(entry.concurrency)}"
    if entry.ratio is None:
        console.print(f"{where}: no speed-up printed, {entry.refused}", style="red", markup=False)
        return
    console.print(f"{where}: {_ratio(entry.ratio)}", markup=False)
    worst = worst_category(entry)
    if worst and entry.arm != CONTROL:
        console.print(f"    worst category {worst[0]}: {worst[1]:.2f}x", markup=False)
    if len(entry.by_output_length) > 1 and entry.arm != CONTROL:
        parts = (f"{name} tokens {ratio.median:.2f}x" for name, ratio in entry.by_output_length.items())
        console.print(f"    by output length: {', '.join(parts)}", markup=False)


def _show_differences(console: Console, report: BenchReport) -> None:
    for arm in report.arms:
        if arm.differences:
            margins = [(found.margin, found.place) for found in arm.differences if found.margin is not None]
            margin, place = max(margins, default=(None, None))
            largest = "no margin measured" if margin is None else f"largest margin {margin:.3g} of the {place}"
            console.print(
                f"{arm.name}, {_rows(arm.concurrency)}: {len(arm.differences)} answers differ somewhere from plain "
                f"decoding, {largest} (near-tie up to {report.near_tie_bound:g})",
                markup=False,
            )
        else:
            console.print(f"{arm.name}, {_rows(arm.concurrency)}: every token equal to plain decoding", markup=False)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _ratio(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}x (95 % interval {ratio.low:.2f} to {ratio.high:.2f})"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
