"""`paradraft bench --passes`: what one pass of the model costs, by the number of tokens in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paradraft.app.config import Config
from paradraft.core.cores import usable_cores

if TYPE_CHECKING:
    from paradraft.lab.bench.passes import PassReport


def bench_passes(config: Config, sizes: Sequence[int], *, rounds: int, json_out: Path | None) -> None:
    """Load the model, time passes of these sizes in turns, print them and write them down."""
    from paradraft.lab.files import write_whole

    report = _measure(config, sizes, rounds)
    _show(report)
    if json_out is not None:
        write_whole(json_out, json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n")


def _measure(config: Config, sizes: Sequence[int], rounds: int) -> PassReport:
    from paradraft.cli.measuring import identity_of
    from paradraft.cli.opening import open_llm
    from paradraft.cli.progress import counting
    from paradraft.lab.bench.passes import CONTEXT, PASSES_FORMAT, PassReport, measure_passes
    from paradraft.lab.machine import read_bandwidth
    from paradraft.lab.provenance import gather

    threads = config.threads or usable_cores()
    with open_llm(replace(config, drafter="none")) as llm:
        provenance = gather(
            command=["paradraft", *sys.argv[1:]],
            model=identity_of(llm),
            dtype=llm.limits.dtype,
            settings=asdict(config),
        )
        before = read_bandwidth(threads)
        with counting("Measuring") as progress:
            passes = measure_passes(llm.model.target, sizes, rounds=rounds, progress=progress)
        return PassReport(
            format=PASSES_FORMAT,
            provenance=provenance,
            context=CONTEXT,
            rounds=rounds,
            weight_bytes=llm.limits.weight_bytes,
            read_bandwidth_gb_s=round(max(before, read_bandwidth(threads)) / 1e9, 2),
            passes=passes,
        )


def _show(report: PassReport) -> None:
    from paradraft.cli.console import out

    console, model = out(), report.provenance.model
    least = 1e3 * report.weight_bytes / (1e9 * report.read_bandwidth_gb_s)
    console.print(
        f"{model.get('name')} on {model.get('runner')}, {report.provenance.dtype}, {report.context} tokens of context; "
        f"memory read at {report.read_bandwidth_gb_s:.1f} GB/s, which reads the weights in {least:.1f} ms",
        markup=False,
    )
    for cost in report.passes:
        time = cost.milliseconds
        console.print(
            f"{cost.tokens:5d} tokens: {time.median:8.2f} ms ({time.min:.2f} to {time.max:.2f})", markup=False
        )
