"""Measures how many slots per second a fit takes on this machine: `python benchmarks/fit_speed.py SHARDS`.

Prints a line per setting, with the cores that were really at work: fewer than --threads on a busy machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from paradraft.train.beginning import NetPlan
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.making import FitSources, open_fit
from paradraft.train.objectives import Objective
from paradraft.train.rhythm import Rhythm


def measure(fit: Fit, steps: int) -> tuple[float, float]:
    """Return slots per second, and seconds of processor time per second, over some steps after as many to warm up."""
    found = []
    begun = (time.perf_counter(), time.process_time())

    def note(report) -> None:
        nonlocal begun
        now = (time.perf_counter(), time.process_time())
        found.append((report.slots_per_second, (now[1] - begun[1]) / (now[0] - begun[0])))
        begun = now

    fit.run(Rhythm(report=steps, measure=10**9, save=10**9, held_out=0), note)
    return found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--method", default="dspark")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for rows, depths in ((0, "full"), (0, "mixed"), (2048, "mixed")):
        plan = FitPlan(steps=2 * given.steps + 1, depths=depths, head_rows=rows, objective=Objective(weighting="equal"))
        with tempfile.TemporaryDirectory() as folder:
            sources = FitSources(target=given.model, shards=given.shards, folder=Path(folder))
            fit = open_fit(sources, NetPlan(method=given.method), plan, device=torch.device("cpu"))
            speed, busy = measure(fit, given.steps)
        print(f"{given.method} depths={depths} head_rows={rows}: {speed:,.0f} slots/s, {busy:.2f} cores busy")


if __name__ == "__main__":
    main()
