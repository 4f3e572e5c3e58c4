"""What one pass costs over M tokens, on the native core, on torch and in transformers, same weights, interleaved.

    python benchmarks/passes.py                     milliseconds by M at 256 tokens of context, and of whole prompts
    python benchmarks/passes.py --dtype fp32 --repeats 15 --sizes 1,8 --arms native,torch
    python benchmarks/passes.py --dtype int8 --arms native

A pass over M tokens feeds one known token and a chain of M - 1 drafts; a prompt is fed from nothing and scored at its
end. transformers runs eagerly with its default attention. Figures are medians, with the smallest in brackets. Before
each timed pass there is a rest and an untimed one of the same arm: the threads of torch spin for milliseconds after a
pass, on the cores that the next arm needs.
On a busy machine --clock cpu --threads 1 counts the processor time of the one thread instead of what a clock shows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

from paradraft.core.arrays import ints, starts_of
from paradraft.core.ports import Target
from paradraft.core.records import Batch, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.lab.machine import read_bandwidth
from paradraft.lab.provenance import gather
from paradraft.models.build import Build
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.device import DTYPES
from paradraft.models.native_target import build_native_target
from paradraft.models.place import DTYPE_NAMES
from paradraft.models.torch_target import build_torch_target

PAGE_SIZE = 16
NUM_PAGES = 128
CONTEXT = 256
CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
ARMS = ("native", "torch", "transformers")
REST = 0.05  # seconds, after which OpenMP's threads have gone to sleep
Run = Callable[[], None]
Timings = dict[str, list[float]]


def batch_of(tokens: np.ndarray, cached: int) -> Batch:
    params = SamplingParams(temperature=0.0)
    return Batch(
        rows=ints([0]),
        starts=starts_of([len(tokens) - cached]),
        tokens=ints(tokens[cached:]),
        context_len=ints([cached]),
        num_scored=ints([1]),
        page_starts=starts_of([NUM_PAGES]),
        pages=ints(range(NUM_PAGES)),
        page_size=PAGE_SIZE,
        history=(ints(tokens),),
        sampling=(RowSampling(params=params, seed=0, choice=0, prompt_len=len(tokens), stop_ids=()),),
    )


class OurArm:
    """A runner behind the target's port."""

    def __init__(self, target: Target) -> None:
        self.name = target.limits.runner
        self._target = target

    def a_pass(self, tokens: np.ndarray, size: int) -> Run:
        """Return a pass over one known token and size - 1 drafts after CONTEXT tokens."""
        self.a_prompt(tokens, CONTEXT)()
        batch = batch_of(tokens[: CONTEXT + 1], CONTEXT)
        return self._run(batch, Proposal.chains([ints(tokens[CONTEXT + 1 : CONTEXT + size])]))

    def a_prompt(self, tokens: np.ndarray, length: int) -> Run:
        """Return the feeding of a whole prompt."""
        return self._run(batch_of(tokens[:length], 0), Proposal.empty(1))

    def _run(self, batch: Batch, proposal: Proposal) -> Run:
        def run() -> None:
            self._target.submit(batch, proposal).wait().argmax()

        return run


class TheirArm:
    """transformers alone."""

    name = "transformers, eager"

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model

    def a_pass(self, tokens: np.ndarray, size: int) -> Run:
        """Return a pass over one known token and size - 1 drafts after CONTEXT tokens."""
        cache = DynamicCache(config=self._model.config)
        with torch.inference_mode():
            self._model(torch.tensor(tokens[None, :CONTEXT]), cache=cache)
        fed = torch.tensor(tokens[None, CONTEXT : CONTEXT + size])

        def run() -> None:
            with torch.inference_mode():
                self._model(fed, cache=cache).logits.argmax(-1)
                cache.crop(-size)

        return run

    def a_prompt(self, tokens: np.ndarray, length: int) -> Run:
        """Return the feeding of a whole prompt."""
        fed = torch.tensor(tokens[None, :length])

        def run() -> None:
            with torch.inference_mode():
                cache = DynamicCache(config=self._model.config)
                self._model(fed, cache=cache, logits_to_keep=1).logits.argmax(-1)

        return run


def open_arm(arm: str, checkpoint: Checkpoint, options: argparse.Namespace) -> OurArm | TheirArm:
    if arm == "transformers":
        return TheirArm(transformers_model(checkpoint, DTYPES[options.dtype]))
    build = Build(
        dtype=options.dtype,
        device="cpu",
        num_pages=NUM_PAGES,
        page_size=PAGE_SIZE,
        num_threads=options.threads,
        needs=None,
    )
    if arm == "native":
        return OurArm(build_native_target(checkpoint, build).runner)
    return OurArm(build_torch_target(checkpoint, build))


def transformers_model(checkpoint: Checkpoint, dtype: torch.dtype) -> PreTrainedModel:
    values, weights = dict(checkpoint.config), checkpoint.weights
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(str(values.pop("model_type")), **values), dtype=dtype)
    made.load_state_dict({name: weights[name].to(dtype) for name in weights}, strict=False)
    made.tie_weights()
    model: PreTrainedModel = made.eval()
    return model


def measure(runs: Mapping[str, Run], repeats: int, clock: Callable[[], float]) -> Timings:
    timings: Timings = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(REST)
            run()
            started = clock()
            run()
            timings[name].append(1e3 * (clock() - started))
    return timings


def report(label: str, timings: Timings) -> dict[str, dict[str, float]]:
    cells = [f"{median(values):8.2f} ({min(values):7.2f})" for values in timings.values()]
    print(f"{label:>12}  {'  '.join(cells)}", flush=True)
    return {
        name: {"median": round(median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}
        for name, values in timings.items()
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="bf16", choices=DTYPE_NAMES)
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument("--sizes", default="1,2,4,8,12,16,32,256")
    parser.add_argument("--prompts", default="256,512")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    bandwidth = read_bandwidth(options.threads) / 1e9
    checkpoint = open_checkpoint(find_model(options.model))
    arms = {arm: open_arm(arm, checkpoint, options) for arm in options.arms.split(",")}
    tokens = np.random.default_rng(0).integers(100, int(str(checkpoint.config["vocab_size"])), 1024)
    print(f"{options.model}, {options.dtype}, {options.threads} threads, memory read at {bandwidth:.0f} GB/s")
    print(f"{'':>12}  " + "  ".join(f"{arm + ', ms':>18}" for arm in arms))
    figures, clock = {}, CLOCKS[options.clock]
    for size in numbers(options.sizes):
        runs = {name: arm.a_pass(tokens, size) for name, arm in arms.items()}
        figures[f"M={size}"] = report(f"M={size}", measure(runs, options.repeats, clock))
    for length in numbers(options.prompts):
        runs = {name: arm.a_prompt(tokens, length) for name, arm in arms.items()}
        figures[f"prompt={length}"] = report(f"prompt {length}", measure(runs, options.repeats, clock))
    if options.json:
        runners = {name: arm.name for name, arm in arms.items()}
        options.json.write_text(json.dumps(content(options, figures, bandwidth, runners), indent=1), encoding="utf-8")


def content(
    options: argparse.Namespace, figures: Mapping[str, object], bandwidth: float, runners: Mapping[str, str]
) -> dict[str, object]:
    settings = {name: value for name, value in vars(options).items() if name != "json"}
    provenance = gather(
        command=["python", *sys.argv],
        model={"name": options.model, "runners": dict(runners)},
        dtype=options.dtype,
        settings=settings,
    )
    return {"provenance": asdict(provenance), "read_gigabytes_per_second": bandwidth, "figures": figures}


if __name__ == "__main__":
    main()
