"""Uncertain positions: fits a selector on what a drafter logs, and holds trees of 12 nodes against other 12 nodes.

    python benchmarks/uncertainty.py --drafter dspark/ --out selector.safetensors
    python benchmarks/uncertainty.py --drafter suffix --fit-prompts gsm8k-100 --fit-limit 50 --limit 16

First the drafter answers one set of prompts while every position is logged: the attention's entropies, the drafter's
own figures, and how surprising the token was that came. A selector is fitted on that. Then another set is answered with
chains of 12 nodes, with best-first trees of 12 where the drafter makes them, with the untrained selector, and with the
fitted one at several thresholds; the threshold with the highest tau is written into the file. Adaptive lengths are
off, a node has its usual price for all, and tau is compared at equal node budgets. For speed: benchmarks/drafters.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from paradraft.app.config import Config, configure
from paradraft.app.llm import LLM
from paradraft.core.arrays import FloatArray
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.neural.selector import NUM_DRAFTER_FEATURES, THRESHOLD
from paradraft.drafters.neural.uncertain_tree import TREE_NODES
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from paradraft.hub.prompts import read_prompts
from paradraft.lab.bench.measures import add_stats
from paradraft.lab.files import write_whole
from paradraft.lab.prompts import build_prompts
from paradraft.nets.networks.selector import FitResult, fit_selector

FAIR = {"suffix_shared_tokens": 0, "prefix_caching": False, "draft_learned_contexts": 0, "adaptive": False}
LARGEST_LOG = 200_000
Line = dict[str, Any]


@contextmanager
def opened(base: Config, **values: Any) -> Iterator[LLM]:
    with LLM(config=configure(values, base)) as llm:
        yield llm


def shaper_of(llm: LLM) -> UncertaintyDrafter:
    guard = llm.engine.drafter
    if not isinstance(guard, GuardedDrafter) or not isinstance(guard.inner, UncertaintyDrafter):
        raise SystemExit("This drafter has no selector.")
    return guard.inner


def answer(llm: LLM, source: str, limit: int | None, options: argparse.Namespace) -> float:
    """Answer a set of prompts and return tau."""
    prompts = build_prompts(source, read_prompts(source), llm.tokenizer, limit=limit).prompts
    params = SamplingParams(temperature=options.temperature, seed=0, max_tokens=options.max_tokens, ignore_eos=True)
    results = [llm.generate([list(prompt.token_ids)], params)[0] for prompt in prompts]
    return add_stats(result.choices[0].stats for result in results).tau


def logged(base: Config, options: argparse.Namespace) -> tuple[FloatArray, FloatArray, int]:
    """Return features, surprises and the layer whose attention was read."""
    with opened(base, draft_selector="entropy") as llm:
        shaper = shaper_of(llm)
        shaper.start_log(LARGEST_LOG)
        answer(llm, options.fit_prompts, options.fit_limit, options)
        features, surprises = shaper.take_log()
        return features, surprises, shaper.needs.entropy_layers[-1]


def compared(base: Config, file: Path, options: argparse.Namespace) -> list[Line]:
    """Return tau and the share of uncertain nodes for each way to spend the nodes."""
    ways: dict[str, dict[str, Any]] = {"chain": {}}
    if (Path(base.drafter) / "config.json").is_file():
        ways["best-first tree"] = {"draft_width": 4}
    ways["untrained selector"] = {"draft_selector": "entropy"}
    for threshold in options.thresholds:
        ways[f"selector at {threshold:g}"] = {"draft_selector": str(file), "draft_threshold": threshold}
    lines = []
    for name, values in ways.items():
        with opened(base, **values) as llm:
            line: Line = {"way": name, "tau": answer(llm, options.prompts, options.limit, options)}
            if "draft_selector" in values:
                counts = shaper_of(llm).counts
                line |= {
                    "uncertain_positions": counts.uncertain_positions / max(counts.positions, 1),
                    "uncertain_nodes": counts.node_share,
                    "accepted_of_uncertain": counts.uncertain_accepted / max(counts.uncertain_nodes, 1),
                    "accepted_of_all": counts.accepted / max(counts.nodes, 1),
                }
        lines.append(line)
        print(json.dumps(line), file=sys.stderr, flush=True)
    return lines


def best_threshold(lines: Sequence[Line], thresholds: Sequence[float]) -> float:
    """Return the threshold with the highest tau, the one closest to the default among equals."""
    taus = {line["way"]: line["tau"] for line in lines}
    return min(thresholds, key=lambda value: (-taus[f"selector at {value:g}"], abs(value - THRESHOLD)))


def save(result: FitResult, file: Path, layer: int, num_features: int, threshold: float) -> None:
    result.net.save(file, layer=layer, heads=num_features - NUM_DRAFTER_FEATURES, threshold=threshold)


def table(lines: Sequence[Line]) -> str:
    text = [
        "| way to spend 12 nodes | tau | nodes at uncertain positions | of those accepted |",
        "|---|---:|---:|---:|",
    ]
    for line in lines:
        share, stood = line.get("uncertain_nodes"), line.get("accepted_of_uncertain")
        cells = ("", "") if share is None else (f"{share:.0%}", f"{stood:.1%}")
        text.append(f"| {line['way']} | {line['tau']:.3f} | {cells[0]} | {cells[1]} |")
    return "\n".join(text)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--drafter", default="suffix", help="a lookup by its name, or a drafter folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--fit-prompts", default="gsm8k-100")
    parser.add_argument("--fit-limit", type=int)
    parser.add_argument("--prompts", default="mt-bench")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.6, 1.2, 1.8, 2.4, 3.0])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=Path("out/selector.safetensors"))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    values = {"model": options.model, "drafter": options.drafter, "dtype": options.dtype, "threads": options.threads}
    base = configure({**FAIR, **values, "gamma": TREE_NODES, "draft_nodes": TREE_NODES, "max_rows": 1})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    features, surprises, layer = logged(base, options)
    result = fit_selector(features, surprises)
    print(f"{len(surprises)} positions, mean surprise {np.mean(surprises):.2f}; explained {result.explained:.1%}")
    save(result, options.out, layer, features.shape[1], THRESHOLD)
    lines = compared(base, options.out, options)
    threshold = best_threshold(lines, options.thresholds)
    save(result, options.out, layer, features.shape[1], threshold)
    print(f"{table(lines)}\n\nthreshold {threshold:g} written to {options.out}")
    if options.json is not None:
        content = {"settings": {name: str(value) for name, value in vars(options).items()}, "ways": lines}
        write_whole(
            options.json, json.dumps({**content, "explained": result.explained, "threshold": threshold}, indent=1)
        )


if __name__ == "__main__":
    main()
