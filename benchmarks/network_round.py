"""What a round of a block drafting network costs on the native core and on torch, same weights, interleaved.

    python benchmarks/network_round.py                          milliseconds of a round and of its context's growth
    python benchmarks/network_round.py --clock cpu --threads 1  processor time of the one thread, on a busy machine
    python benchmarks/network_round.py --drafter FOLDER --rows 4 --context 512

A round drafts a block for every row behind its context; before it each row's context grows by some entries. Ahead of
every call come 50 milliseconds of sleep, as torch's threads spin for a while when an operation is over, and a pass of
the target, which leaves the network's weights as cold as they are in service. The pass over eight tokens stands
beside them, for a round is worth its time only if it costs little of one. Figures are medians, the smallest in ().
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np
import torch
from passes import CLOCKS, OurArm

from paradraft.app.config import Config
from paradraft.app.defaults import shipped_network
from paradraft.core.arrays import ints, starts_of
from paradraft.models.build import Running
from paradraft.models.load import LoadedModel, load_model
from paradraft.nets.folder.facts import facts_of
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.serving.choosing import NetRunning
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed
from paradraft.nets.serving.target import serve_for

PAGE_SIZE, NUM_PAGES = 16, 512
REST = 0.05  # seconds
ARMS: Mapping[str, NetRunning] = {
    "torch bf16": NetRunning(is_native=False, dtype="bf16"),
    "native bf16": NetRunning(is_native=True, dtype="bf16"),
    "native int8": NetRunning(is_native=True, dtype="int8"),
}
Run = Callable[[], object]


class Rows:
    """Feeds for some rows whose contexts lie one after the other."""

    def __init__(self, options: argparse.Namespace, tap_size: int, block_size: int) -> None:
        self._draw = np.random.default_rng(0)
        self._rows, self._context, self._tap_size = options.rows, options.context, tap_size
        self._scratch = block_size + 1
        self._candidates = options.candidates

    def entries(self, first: int, count: int) -> ContextFeed:
        """Return `count` entries for each row, from index `first` on."""
        rows = range(self._rows)
        return ContextFeed(
            starts=starts_of([count] * self._rows),
            tokens=ints([5] * count * self._rows),
            taps=self._draw.standard_normal((count * self._rows, self._tap_size)).astype(np.float32),
            positions=ints([place for _ in rows for place in range(first, first + count)]),
            slots=ints(np.concatenate([self._slots(row, first, count) for row in rows])),
            context_starts=starts_of([first] * self._rows),
            context_slots=ints(np.concatenate([self._slots(row, 0, first) for row in rows])),
        )

    def round(self) -> DraftFeed:
        """Return a round behind the whole context."""
        rows = range(self._rows)
        return DraftFeed(
            anchors=ints([100 + row for row in rows]),
            positions=ints([self._context] * self._rows),
            taps=np.zeros((self._rows, self._tap_size), np.float32),
            temperatures=np.ones(self._rows, np.float32),
            context_starts=starts_of([self._context] * self._rows),
            context_slots=ints(np.concatenate([self._slots(row, 0, self._context) for row in rows])),
            scratch_starts=starts_of([self._scratch] * self._rows),
            scratch_slots=ints(np.concatenate([self._slots(row, self._context, self._scratch) for row in rows])),
            depth=self._scratch - 1,
            num_candidates=self._candidates,
        )

    def _slots(self, row: int, first: int, count: int) -> np.ndarray:
        start = row * (self._context + 2 * self._scratch + PAGE_SIZE) // PAGE_SIZE * PAGE_SIZE
        return np.arange(start + first, start + first + count)


def open_runs(options: argparse.Namespace, target: LoadedModel) -> dict[str, tuple[Run, Run]]:
    """Return, by arm, what drafts a round and what adds entries to contexts."""
    folder = options.drafter or shipped_network(options.model)
    fitted, _ = load_drafter_folder(folder, num_target_layers=target.target.limits.num_layers).for_target(
        facts_of(target)
    )
    config = fitted.config
    rows = Rows(options, config.num_taps * config.hidden_size, config.block_size)
    whole, few, drafted = rows.entries(0, options.context), rows.entries(options.context - 3, 3), rows.round()
    runs: dict[str, tuple[Run, Run]] = {}
    for name, running in ARMS.items():
        network = serve_for(fitted, target, running, device="cpu")
        network.append(whole)
        runs[name] = (lambda network=network: network.draft(drafted), lambda network=network: network.append(few))
    return runs


def measure(runs: Mapping[str, Run], target: Run, repeats: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Return the milliseconds of each run, in turns, each behind a pass of the target."""
    timings: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 3):
        for name, run in runs.items():
            time.sleep(REST)
            target()
            started = clock()
            run()
            if repeat >= 3:  # the first rounds warm up
                timings[name].append(1e3 * (clock() - started))
    return timings


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=Config().model)
    parser.add_argument("--drafter", help="folder of a DFlash or DSpark network, by default the one that ships")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "int8"), help="of the target")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    running = Running(dtype=options.dtype, device="cpu", runner="native", threads=options.threads)
    target = load_model(options.model, running=running, num_pages=NUM_PAGES, page_size=PAGE_SIZE)
    arms = open_runs(options, target)
    runs: dict[str, Run] = {f"round, {name}": run for name, (run, _) in arms.items()}
    runs |= {f"3 entries a row, {name}": run for name, (_, run) in arms.items()}
    tokens = np.random.default_rng(0).integers(100, target.target.limits.vocab_size, 1024)
    a_pass = OurArm(target.target).a_pass(tokens, 8)
    runs["target's pass over 8"] = a_pass
    print(f"{options.model}, {options.dtype}, {options.threads} threads, {options.rows} rows, {options.clock} clock")
    for name, values in measure(runs, a_pass, options.repeats, CLOCKS[options.clock]).items():
        print(f"{name:>32}  {median(values):7.3f} ms ({min(values):7.3f})", flush=True)


if __name__ == "__main__":
    main()
