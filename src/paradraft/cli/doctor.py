"""`paradraft doctor`: what this machine can do, and why."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from paradraft.cli import options

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
        console = out()
        for finding in findings:
            console.print(f"{finding.status:<4}", style=_STYLES[finding.status], end="  ")
            console.print(f"{finding.name:<10} {finding.detail}", markup=False)
            if finding.remedy:
                console.print(f"{'':<17}{finding.remedy}", style="dim", markup=False)
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)
