"""How soon a fresh process says its first token, what the time goes to, and how much memory it takes.

    python benchmarks/cold_start.py                        the built-in model on the native core, int8, five starts
    python benchmarks/cold_start.py --dtype bf16 --drafter auto --repeats 15
    python benchmarks/cold_start.py --drafter auto --network auto
    python benchmarks/cold_start.py --packed off           weights packed in memory at every start

Every start is a process of its own, one after the other; one before them fills the page cache and, with --packed on,
saves the packed weights. Figures are medians in milliseconds, by the clock on the wall and by processor time, which
other work on the machine changes less; with one thread both agree on a machine at rest. Memory is what the process
holds after its first token over what it held before loading, beside the packed weights and the cache of the tokens it
fed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

STAGES = ("interpreter", "imports", "tokenizer", "opening", "weights", "rest of loading", "first token")
MEMORY = ("grown", "tokenizer", "weight_bytes", "cache_bytes")

# Runs in the fresh process. Its clocks count from the start of the process.
PROBE = """
import time
marks = [("interpreter", time.process_time(), time.time())]
held = {}
import json, os, sys
source, dtype, drafter, network, threads, prompt = sys.argv[1:]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def mark(name):
    marks.append((name, time.process_time(), time.time()))
    held[name] = resident()

from paradraft.app.llm import LLM
from paradraft.core.sampling import SamplingParams
from paradraft.models import load
mark("imports")

def marked(name, function):
    def call(*arguments, **named):
        result = function(*arguments, **named)
        mark(name)
        return result
    return call

stages = {"tokenizer": "load_tokenizer", "opening": "why_not_native", "weights": "build_native_target"}
for name, function in stages.items():
    setattr(load, function, marked(name, getattr(load, function)))
options = {"dtype": dtype, "drafter": drafter, "draft_network": network, "threads": int(threads)}
llm = LLM(source, runner="native", **options)
mark("rest of loading")
next(llm.stream(prompt, SamplingParams(temperature=0.0, max_tokens=2)))
mark("first token")
limits = llm.limits
print(json.dumps({
    "marks": marks, "grown": held["first token"] - held["imports"], "tokenizer": held["tokenizer"] - held["imports"],
    "weight_bytes": limits.weight_bytes,
    "cache_bytes": limits.bytes_per_token * (len(llm.tokenizer.encode(prompt)) + 1),
    "torch": "torch" in sys.modules, "summary": llm.summary(),
}))
"""


def start(options: argparse.Namespace) -> dict[str, object]:
    """Return what a fresh process tells of its start, with the time of its stages in milliseconds."""
    environment = dict(os.environ)
    if options.packed == "off":
        environment["PARADRAFT_PACKED_GB"] = "0"
    arguments = (options.model, options.dtype, options.drafter, options.network, str(options.threads), options.prompt)
    begin = time.time()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, object] = json.loads(done.stdout)
    stages, last = {}, (0.0, begin)
    for name, cpu, wall in told.pop("marks"):  # type: ignore[attr-defined]
        stages[name] = (1e3 * (wall - last[1]), 1e3 * (cpu - last[0]))
        last = (cpu, wall)
    return {**told, "stages": stages}


def report(starts: list[dict[str, object]]) -> dict[str, object]:
    """Print the medians and return them."""
    figures: dict[str, object] = {}
    print(f"{'milliseconds':<18}{'wall':>9}{'processor':>11}")
    for name in (*STAGES, "together"):
        walls, cpus = zip(*(_stage(start, name) for start in starts), strict=True)
        figures[name] = {"wall": median(walls), "cpu": median(cpus)}
        print(f"{name:<18}{median(walls):>9.0f}{median(cpus):>11.0f}")
    memory = {key: median(_number(start, key) for start in starts) for key in MEMORY}
    share = memory["grown"] / (memory["weight_bytes"] + memory["cache_bytes"])
    print(f"memory grown by {memory['grown'] / 1e6:.0f} MB: {share:.2f} x packed weights and cache of the fed tokens")
    print(f"{memory['tokenizer'] / 1e6:.0f} MB of it behind the tokenizer, before freed memory is given back")
    print(f"torch was imported: {'yes' if any(start['torch'] for start in starts) else 'no'}")
    return {**figures, "memory": {**memory, "share": share}}


def _number(start: dict[str, object], key: str) -> int:
    return int(str(start[key]))


def _stage(start: dict[str, object], name: str) -> tuple[float, float]:
    stages: dict[str, tuple[float, float]] = start["stages"]  # type: ignore[assignment]
    if name != "together":
        return stages[name]
    walls, cpus = zip(*stages.values(), strict=True)
    return sum(walls), sum(cpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--drafter", default="none")
    parser.add_argument("--network", default="none", help="auto or a folder; with --drafter auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--packed", choices=("on", "off"), default="on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(start(options)["summary"])
    figures = report([start(options) for _ in range(options.repeats)])
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
