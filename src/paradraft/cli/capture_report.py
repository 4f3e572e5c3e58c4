"""What `paradraft train capture` says before, while and after it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from paradraft.cli.console import err
from paradraft.cli.progress import counting

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.train.capture import CaptureReport
    from paradraft.train.plan import CapturePlan
    from paradraft.train.ports import Progress


def announce(plan: CapturePlan, needed: int, llm: LLM) -> None:
    """Say what a capture may come to, and what runs the target, with the reason where it is not the native core."""
    count = len(plan.tasks) + plan.options.own_turns
    err().print(
        f"Up to {count} conversations, at most {plan.most_tokens / 1e6:.2f} million tokens of {plan.bytes_per_token} "
        f"bytes each with taps of layers {', '.join(map(str, plan.tap_layers))}: at most {needed / 1e9:.2f} GB of disk."
    )
    reason = f" (not native: {llm.model.why_not_native})" if llm.model.why_not_native else ""
    err().print(f"Answers and taps come from {llm.limits.runner}, {llm.limits.dtype}{reason}.")


@contextmanager
def counting_units(label: str, projected: Callable[[], int | None] | None = None) -> Iterator[Progress]:
    """Show a bar where there is a terminal, and else a line for each step, for runs of hours in the background.

    projected: bytes that the run will take in the end, told once as soon as they are known.
    """
    with counting(label) as bar:
        is_told = projected is None

        def report(done: int, total: int) -> None:
            nonlocal is_told
            bar(done, total)
            if not err().is_terminal:
                err().print(f"{label}: {done}/{total}")
            num_bytes = None if is_told or projected is None else projected()
            if num_bytes is not None:
                err().print(f"By what is there, tokens with taps will take {num_bytes / 1e9:.2f} GB in the end.")
                is_told = True

        yield report


def show_capture(report: CaptureReport, folder: Path, *, as_json: bool) -> None:
    """Print what a run did and what the folder holds."""
    if as_json:
        print(json.dumps(asdict(report)))
        return
    left_out = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items()) or "nothing"
    size = f"{report.num_tokens} tokens, taps {report.taps_bytes / 1e9:.2f} GB"
    print(f"{folder}: {report.num_sequences} conversations, {size}")
    print(f"left out: {left_out}")
    speed = report.num_answered / max(report.seconds, 1e-9)
    if report.num_answered:
        print(f"this run: {report.num_answered} answer tokens in {report.seconds:.0f} s ({speed:.1f} tokens/s)")
