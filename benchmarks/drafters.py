"""The controlled comparison of drafters: one target, one set of prompts, every drafter as chain and as tree.

    python benchmarks/drafters.py --limit 16 --json out/drafters.json
    python benchmarks/drafters.py --table answers.table --folder dspark/ --folder peagle/ --json out/drafters.json \
        --markdown out/drafters.md --svg out/drafters.svg
    python benchmarks/drafters.py --arm 'merged,12 = {drafter = "merged", draft_nodes = 12}' --methods ""

Each drafter takes turns with plain decoding on the same prompts, so its speed-up is against passes of the same minutes;
one that answers differently (beyond near-ties) gets none. All have the same gamma and node budget, all lengths adapt to
measured costs unless --set adaptive=false. Nothing is carried over between prompts: no shared answers, prefixes or
learned contexts. The JSON is written after each drafter, and a run that finds it there goes on with the next one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drafters_shown import draw, markdown

from paradraft.app.config import Config, configure
from paradraft.app.llm import LLM
from paradraft.cli.settings import parse_settings
from paradraft.hub.prompts import read_prompts
from paradraft.lab.bench.measures import counts_of
from paradraft.lab.bench.plan import PLAIN, Arm, BenchPlan
from paradraft.lab.bench.report import Measured, build_report, worst_category
from paradraft.lab.bench.run import Run, run_bench
from paradraft.lab.files import write_whole
from paradraft.lab.listening import Listener, PlainSpeaker
from paradraft.lab.prompts import PromptSet, build_prompts
from paradraft.lab.provenance import gather

FORMAT = "paradraft-drafters-1"
FAIR = {"suffix_shared_tokens": 0, "prefix_caching": False, "draft_learned_contexts": 0}
METHODS = "ngram,suffix,recent,early-exit,table,folders,ladder,merged"
Arms = dict[str, dict[str, Any]]  # name -> options of Config


def arms_of(options: argparse.Namespace) -> Arms:
    """Return the drafters to compare; those that need files are there if the files are given."""
    methods = [name for name in options.methods.split(",") if name]
    folders = [str(folder) for folder in options.folder]
    table: dict[str, Any] = {} if options.table is None else {"draft_table": str(options.table)}
    arms: Arms = {name: {"drafter": name} for name in ("ngram", "suffix", "recent") if name in methods}
    if "early-exit" in methods:
        arms["early-exit"] = {"drafter": "early-exit"}
        arms["early-exit tree"] = {"drafter": "early-exit", "draft_branching": (2, 2, 1)}
    if table and "table" in methods:
        arms["table"] = {"drafter": "table", **table}
    for folder in folders if "folders" in methods else []:
        arms |= _arms_of_folder(folder, options)
    sources = ("suffix", "recent", *(("table",) if table else ()))
    for combining in ("ladder", "merged"):
        if combining in methods:
            arms[combining] = {"drafter": combining, "draft_sources": sources, "draft_nodes": options.nodes, **table}
            for folder in folders:
                with_network = {**arms[combining], "draft_sources": (*sources, folder)}
                arms[f"{combining} with {Path(folder).name}"] = with_network
    for text in options.arm:
        arms |= tomllib.loads(_quoted(text))
    return arms


def _arms_of_folder(folder: str, options: argparse.Namespace) -> Arms:
    name = Path(folder).name
    tree = {"drafter": folder, "draft_width": options.width, "draft_nodes": options.nodes}
    arms: Arms = {name: {"drafter": folder}, f"{name} tree": tree}
    if options.selector is not None:
        arms[f"{name} selector"] = {"drafter": folder, "draft_selector": str(options.selector), "draft_nodes": 12}
        arms[f"{name} 12 nodes"] = {"drafter": folder, "draft_nodes": 12, "gamma": 12}
    return arms


def _quoted(text: str) -> str:
    """Return `name = {...}` with its name in quotes, as TOML wants it."""
    name, equals, rest = text.partition("=")
    return f"{json.dumps(name.strip())} {equals} {rest}"


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Plain decoding, and how it is heard."""

    llm: LLM
    listener: Listener


def measure(name: str, values: dict[str, Any], heard: Plain, base: Config, prompts: PromptSet, plan: BenchPlan) -> dict:
    """Return the figures of one drafter, measured in turns with plain decoding."""
    config, plain = configure(values, base), heard.llm
    with LLM(config=config) as llm:
        arms = [
            Arm(name=PLAIN, speaker=plain, is_speculative=False, verb_seconds=lambda: plain.engine.totals.seconds),
            Arm(name=name, speaker=llm, verb_seconds=lambda: llm.engine.totals.seconds),
        ]
        runs = run_bench(arms, prompts, plan)
        provenance = gather(
            command=["python", *sys.argv],
            model={"name": llm.identity.name, "sha256": llm.identity.sha256, "runner": llm.limits.runner},
            dtype=llm.limits.dtype,
            settings=asdict(config),
        )
        speaker = PlainSpeaker(plain, heard.listener)
        measured = Measured(arms=arms, plain=speaker, runs=runs, prompt_set=prompts, plan=plan)
        report = build_report(measured, provenance)
        calibration = asdict(llm.engine.verification.calibration.current)
        memory = llm.engine.drafter.needs.extra_bytes
    [own] = [arm for arm in report.arms if arm.name == name]
    [entry] = report.speedups
    worst = worst_category(entry)
    return {
        "options": values,
        "tau": own.tau,
        "tau_by_category": {part.name: part.tau for part in own.by_category},
        "tau_by_repeat": [_tau(runs, name, repeat) for repeat in range(plan.repeats)],
        "acceptance_rate": own.acceptance_rate,
        "acceptance_by_position": own.acceptance_by_position,
        "mean_draft_len": own.mean_draft_len,
        **_milliseconds(runs, name),
        "plain_pass_ms": _milliseconds(runs, PLAIN)["pass_ms"],
        "tokens_per_second": asdict(own.tokens_per_second),
        "speedup": None if entry.ratio is None else asdict(entry.ratio),
        "refused": entry.refused,
        "speedup_by_category": {part: asdict(ratio) for part, ratio in entry.by_category.items()},
        "worst_category": worst,
        "identical_to_plain": own.identical_to_plain,
        "calibration": calibration,
        "extra_bytes": memory,
        "warnings": report.warnings,
        "provenance": asdict(provenance),
    }


def _tau(runs: Sequence[Run], name: str, repeat: int) -> float:
    return counts_of(run for run in runs if run.arm == name and run.repeat == repeat).tau


def _milliseconds(runs: Sequence[Run], name: str) -> dict[str, float]:
    """Return what a pass and the drafting beside it take, by row pass; prompts are in there, too."""
    own = [run for run in runs if run.arm == name]
    passes = max(counts_of(own).passes, 1)
    spent = {
        verb: 1e3 * sum(run.verb_seconds.get(verb, 0.0) for run in own) / passes
        for verb in ("propose", "observe", "score")
    }
    return {"draft_ms": spent["propose"], "observe_ms": spent["observe"], "pass_ms": spent["score"]}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--methods", default=METHODS, help=f"of {METHODS}")
    parser.add_argument("--table", type=Path, help="counted continuations, for table, ladder and merged")
    parser.add_argument("--folder", action="append", default=[], help="a drafter folder; may be given several times")
    parser.add_argument("--selector", type=Path, help="a selector of uncertain positions, for the folders")
    parser.add_argument("--arm", action="append", default=[], help="one more, as NAME = {key = value, ...}")
    parser.add_argument("--gamma", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=8, help="node budget of trees")
    parser.add_argument("--width", type=int, default=4, help="children per node of networks' trees")
    parser.add_argument("--prompts", default="mt-bench")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--set", action="append", default=[], help="an option for all, as key=value")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    return parser.parse_args()


def settings_of(options: argparse.Namespace, prompts: PromptSet) -> dict[str, Any]:
    """Return what must be alike for figures to stand in one table."""
    plan = {name: getattr(options, name) for name in ("model", "dtype", "gamma", "nodes", "width", "max_tokens")}
    more = {name: getattr(options, name) for name in ("repeats", "temperature", "set")}
    return {**plan, **more, "prompts": prompts.name, "prompt_sha256": prompts.sha256}


def known_results(options: argparse.Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the drafters that were measured before with these settings."""
    if options.json is None or not options.json.is_file():
        return {}
    content = json.loads(options.json.read_text(encoding="utf-8"))
    if content.get("settings") != settings:
        raise SystemExit(f"{options.json} holds figures of other settings. Name another file, or remove it.")
    found: dict[str, Any] = content["drafters"]
    return found


def main() -> None:
    options = parse_options()
    arms = arms_of(options)
    values = {"model": options.model, "dtype": options.dtype, "gamma": options.gamma, "max_rows": 1}
    base = configure({**FAIR, **values, **parse_settings(options.set)})
    with ExitStack() as stack:
        listener = Listener()
        plain = stack.enter_context(LLM(config=configure({"drafter": "none"}, base), custom=listener))
        heard = Plain(llm=plain, listener=listener)
        prompts = build_prompts(options.prompts, read_prompts(options.prompts), plain.tokenizer, limit=options.limit)
        plan = BenchPlan(max_tokens=options.max_tokens, repeats=options.repeats, temperature=options.temperature)
        settings = settings_of(options, prompts)
        found = known_results(options, settings)
        for name in [name for name in arms if name not in found]:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            found[name] = measure(name, arms[name], heard, base, prompts, plan)
            if options.json is not None:
                content = {"format": FORMAT, "settings": settings, "drafters": found}
                write_whole(options.json, json.dumps(content, indent=1) + "\n")
    shown = {name: found[name] for name in arms}
    print(markdown(shown))
    if options.markdown is not None:
        write_whole(options.markdown, markdown(shown) + "\n")
    if options.svg is not None:
        write_whole(options.svg, draw(shown))


if __name__ == "__main__":
    main()
