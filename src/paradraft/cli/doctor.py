"""`paradraft doctor`: what this machine can do, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from paradraft.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from paradraft.lab.doctor.findings import Finding

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}

EXAMPLES = (
    "paradraft doctor",
    "paradraft doctor --json",
)


def doctor(as_json: options.AsJson = False) -> None:
    """Examine processor, memory, torch, device and cache; each line is ok, warn or fail, with a remedy.

    Exits with 1 if a line fails.
    """
    from paradraft.cli.console import out
    from paradraft.cli.progress import waiting
    from paradraft.lab.doctor.checks import examine
    from paradraft.lab.doctor.facts import gather_facts

    with waiting("Examining this machine"):
        findings = examine(gather_facts())
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        out().print(_table(findings))
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


def _table(findings: Sequence[Finding]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in findings:
        table.add_row(Text(finding.status, style=_STYLES[finding.status]), finding.name, Text(finding.detail))
        if finding.remedy:
            table.add_row("", "", Text(finding.remedy, style="dim"))
    return table
