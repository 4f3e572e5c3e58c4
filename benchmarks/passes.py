"""What one pass costs over M tokens, on the torch runner and in transformers, same weights, repeats interleaved.

    python benchmarks/passes.py                     milliseconds by M at 256 tokens of context, and of whole prompts
    python benchmarks/passes.py --dtype fp32 --repeats 15 --sizes 1,8

A pass over M tokens feeds one known token and a chain of M - 1 drafts; a prompt is fed from nothing and scored at its
end. transformers runs eagerly with its default attention. Figures are medians, with the smallest in brackets.
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
from paradraft.core.records import Batch, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.lab.machine import read_bandwidth
from paradraft.lab.provenance import gather
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.device import DTYPES
from paradraft.models.runner import TorchRunner

PAGE_SIZE = 16
NUM_PAGES = 128
CONTEXT = 256
CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
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


def our_pass(runner: TorchRunner, tokens: np.ndarray, size: int) -> Callable[[], None]:
    batch = batch_of(tokens[: CONTEXT + 1], CONTEXT)
    proposal = Proposal.chains([ints(tokens[CONTEXT + 1 : CONTEXT + size])])
    return lambda: best_ids(runner, batch, proposal)


def best_ids(runner: TorchRunner, batch: Batch, proposal: Proposal) -> None:
    runner.submit(batch, proposal).wait().argmax()


def our_prompt(runner: TorchRunner, tokens: np.ndarray, length: int) -> Callable[[], None]:
    batch = batch_of(tokens[:length], 0)
    return lambda: best_ids(runner, batch, Proposal.empty(1))


def their_pass(model: PreTrainedModel, tokens: np.ndarray, size: int) -> Callable[[], None]:
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(torch.tensor(tokens[None, :CONTEXT]), cache=cache)
    fed = torch.tensor(tokens[None, CONTEXT : CONTEXT + size])

    def run() -> None:
        with torch.inference_mode():
            model(fed, cache=cache).logits.argmax(-1)
            cache.crop(-size)

    return run


def their_prompt(model: PreTrainedModel, tokens: np.ndarray, length: int) -> Callable[[], None]:
    fed = torch.tensor(tokens[None, :length])

    def run() -> None:
        with torch.inference_mode():
            cache = DynamicCache(config=model.config)
            model(fed, cache=cache, logits_to_keep=1).logits.argmax(-1)

    return run


def transformers_model(
    config: Mapping[str, object], tensors: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> PreTrainedModel:
    values = dict(config)
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(str(values.pop("model_type")), **values), dtype=dtype)
    made.load_state_dict({name: tensors[name].to(dtype) for name in tensors}, strict=False)
    made.tie_weights()
    model: PreTrainedModel = made.eval()
    return model


def measure(arms: Mapping[str, Callable[[], None]], repeats: int, clock: Callable[[], float]) -> Timings:
    timings: Timings = {name: [] for name in arms}
    for repeat in range(repeats + 1):
        for name, run in arms.items():
            started = clock()
            run()
            if repeat:  # the first round warms up
                timings[name].append(1e3 * (clock() - started))
    return timings


def report(label: str, timings: Timings) -> dict[str, float]:
    ours, theirs = timings["ours"], timings["theirs"]
    ratio = median(theirs) / median(ours)
    print(
        f"{label:>12}  {median(ours):8.2f} ({min(ours):7.2f})  {median(theirs):8.2f} ({min(theirs):7.2f})  "
        f"{ratio:5.2f}x ({min(theirs) / min(ours):4.2f}x)",
        flush=True,
    )
    return {
        "ours_ms": round(median(ours), 3),
        "ours_least_ms": round(min(ours), 3),
        "theirs_ms": round(median(theirs), 3),
        "theirs_least_ms": round(min(theirs), 3),
        "ratio": round(ratio, 3),
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="bf16", choices=sorted(DTYPES))
    parser.add_argument("--sizes", default="1,2,4,8,12,16,32,256")
    parser.add_argument("--prompts", default="256,512")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    bandwidth = read_bandwidth(options.threads) / 1e9
    dtype, clock = DTYPES[options.dtype], CLOCKS[options.clock]
    checkpoint = open_checkpoint(find_model(options.model))
    tensors = dict(checkpoint.weights)
    runner = TorchRunner.build(
        checkpoint.config, tensors, dtype=dtype, device=torch.device("cpu"), num_pages=NUM_PAGES, page_size=PAGE_SIZE
    )
    model = transformers_model(checkpoint.config, tensors, dtype)
    tokens = np.random.default_rng(0).integers(100, runner.limits.vocab_size, 1024)
    our_prompt(runner, tokens, CONTEXT)()
    print(f"{options.model}, {options.dtype}, {options.threads} threads, memory read at {bandwidth:.0f} GB/s")
    print(f"{runner.limits.runner}; {'ours, ms':>30}  {'transformers, ms':>18}")
    figures = {}
    for size in [int(text) for text in options.sizes.split(",") if text]:
        arms = {"ours": our_pass(runner, tokens, size), "theirs": their_pass(model, tokens, size)}
        figures[f"M={size}"] = report(f"M={size}", measure(arms, options.repeats, clock))
    for length in [int(text) for text in options.prompts.split(",") if text]:
        arms = {"ours": our_prompt(runner, tokens, length), "theirs": their_prompt(model, tokens, length)}
        figures[f"prompt={length}"] = report(f"prompt {length}", measure(arms, options.repeats, clock))
    if options.json:
        options.json.write_text(json.dumps(content(options, figures, bandwidth, runner), indent=1), encoding="utf-8")


def content(
    options: argparse.Namespace, figures: Mapping[str, object], bandwidth: float, runner: TorchRunner
) -> dict[str, object]:
    settings = {name: value for name, value in vars(options).items() if name != "json"}
    provenance = gather(
        command=["python", *sys.argv],
        model={"name": options.model, "runner": runner.limits.runner, "weight_bytes": runner.limits.weight_bytes},
        dtype=options.dtype,
        settings=settings,
    )
    return {"provenance": asdict(provenance), "read_gigabytes_per_second": bandwidth, "figures": figures}


if __name__ == "__main__":
    main()
