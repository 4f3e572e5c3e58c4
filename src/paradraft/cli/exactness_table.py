"""Tables of the exactness matrix, and what its files say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from paradraft.cli.console import out

if TYPE_CHECKING:
    from paradraft.lab.exactness.check import CaseResult
    from paradraft.lab.exactness.ledger import Contents

_WORDS = ("drafter", "order", "result")


def show_results(results: Sequence[CaseResult]) -> None:
    """Print a line for each case, then each difference that nothing forgives, then the counts."""
    table = Table(box=None, pad_edge=False)
    for title in ("drafter", "T", "gamma", "rows", "order", "equal", "near-ties", "tau", "result"):
        table.add_column(title, justify="left" if title in _WORDS else "right")
    for result in results:
        case = result.case
        table.add_row(
            case.name,
            f"{case.temperature:g}",
            str(case.gamma),
            str(case.rows),
            case.order,
            f"{result.num_equal}/{result.num_prompts}",
            str(len(result.near_ties)),
            f"{result.tau:.2f}",
            "pass" if result.is_passed else "FAIL",
        )
    console = out()
    console.print(table)
    for result in results:
        for difference in result.mismatches:
            margin = "unknown" if difference.margin is None else f"{difference.margin:.4g} ({difference.place})"
            console.print(
                f"{result.case}: prompt {difference.prompt} differs at token {difference.position}, margin {margin}",
                style="red",
                markup=False,
            )
    failed = sum(not result.is_passed for result in results)
    console.print(f"{len(results)} cases, {failed} failed")


def show_contents(contents: Contents) -> None:
    """Print the results in the order of the matrix, what is missing, and what made them."""
    order = {case: number for number, case in enumerate(contents.wanted)}
    show_results(sorted(contents.results, key=lambda result: order[result.case]))
    console = out()
    missing = Counter(case.name for case in contents.missing())
    if missing:
        several = ", ".join(f"{name} {count}" for name, count in missing.items())
        console.print(f"{missing.total()} missing: {several}", style="red", markup=False)
    setup = contents.setup
    console.print(
        f"weights {setup['weights'][:12]}, {setup['runner']}, {setup['dtype']}, {setup['max_tokens']} tokens for each "
        f"of the prompts {setup['prompts'][:12]}, paradraft {setup['paradraft']} ({setup['source'][:12]}), torch "
        f"{setup['torch']}, {setup['cpu']}",
        markup=False,
    )
    for run in contents.runs:
        console.print(f"{run['started_at']}, commit {run['commit']}: {run['command']}", markup=False)
