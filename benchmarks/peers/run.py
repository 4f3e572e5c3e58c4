"""Paradraft against the engines people use on a processor: same weights, prompts, lengths and threads, in turns.

    sh benchmarks/peers/install.sh ENVIRONMENTS        once: the engines, llama.cpp compiled for this processor
    python benchmarks/peers/run.py --environments ENVIRONMENTS --json out/peers.json --markdown out/peers.md
    python benchmarks/peers/run.py --environments ENVIRONMENTS --arms 'paradraft bf16 *,llama.cpp BF16 *' --limit 2

Every engine runs in a process and an environment of its own. All are loaded before the first turn, and stopped while
it is not theirs. Answers are greedy, an end of sequence does not stop them, and one of another length is no figure.
What cannot be installed, started or asked is reported as absent, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arms import OURS, Arm, all_arms, choose
from figures import answers_of, same_on_repeat, table_of
from process import Peer, PeerFailed, PeerRefused
from shown import draw, markdown
from turns import Measurement, Plan, Turn, measure
from weights import Weights, WeightsMissing

from paradraft import LLM, SamplingParams
from paradraft.core.cores import usable_cores
from paradraft.core.errors import ParadraftError
from paradraft.hub.cache import cache_folder
from paradraft.hub.prompts import read_prompts
from paradraft.lab.files import write_whole
from paradraft.lab.machine import read_bandwidth
from paradraft.lab.near_ties import explain, first_difference, is_near_tie, near_tie_bound
from paradraft.lab.prompts import PromptSet, build_prompts
from paradraft.lab.provenance import gather
from paradraft.models.tokenizer import load_tokenizer

FORMAT = "paradraft-peers-1"
HERE = Path(__file__).parent
REFERENCE = "paradraft bf16 plain"
LOAD_SECONDS = 600.0
Absent = dict[str, str]  # arm -> reason


def start(arm: Arm, options: argparse.Namespace, weights: Weights, length: int) -> tuple[Peer, dict[str, Any]]:
    """Return a loaded engine, stopped, with its facts; raise PeerFailed, PeerRefused, or what is wrong with weights."""
    python = python_of(arm.engine, options.environments)
    script = HERE / "engines" / f"with_{arm.engine.replace('-', '_')}.py"
    log = options.environments / "log" / f"{arm.name.replace(' ', '-')}.log"
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    job = {"model": str(weights.form(arm.weights)), "threads": options.threads, "rows": max(options.concurrency)}
    peer = Peer([python, script], log, environment)
    try:
        facts = peer.load({**job, "length": length, **arm.job}, seconds=LOAD_SECONDS)
    except BaseException:
        peer.close()
        raise
    peer.pause()
    return peer, facts


def python_of(engine: str, environments: Path) -> Path:
    """Return the interpreter of an engine; transformers is a dependency of ours, so ours serves if it has none.

    Raises PeerFailed if there is none.
    """
    own = environments / engine / "bin/python"
    if own.is_file():
        return own
    if engine in (OURS, "transformers"):
        return Path(sys.executable)
    raise PeerFailed(f"not installed: no {own} (sh benchmarks/peers/install.sh {environments} {engine})")


def start_all(
    arms: Sequence[Arm], options: argparse.Namespace, weights: Weights, length: int, stack: ExitStack
) -> tuple[dict[str, Peer], dict[str, Any], Absent]:
    """Return the engines that run, their facts, and why the others do not."""
    peers: dict[str, Peer] = {}
    facts: dict[str, Any] = {}
    absent: Absent = {}
    for arm in arms:
        say(f"loading {arm.name}")
        try:
            peers[arm.name], facts[arm.name] = start(arm, options, weights, length)
        except (PeerFailed, PeerRefused, WeightsMissing, ParadraftError) as error:
            absent[arm.name] = str(error)
            say(f"absent: {error}")
        else:
            say(str(facts[arm.name].get("summary", "loaded")))
            stack.callback(peers[arm.name].close)
    return peers, facts, absent


def agreement(arms: Sequence[Arm], found: Measurement, prompts: PromptSet, folder: Path) -> list[dict[str, Any]]:
    """Return how far the answers agree: with plain decoding in bf16, and each speculation with its own engine's plain.

    Differences in bf16 from our plain decoding are told apart by the margin of logits in ours: rounding explains a
    near-tie, different weights would show as more. Without the reference nothing is compared with it.
    """
    answers = {arm.name: answers_of(arm.name, found) for arm in arms}
    answers = {name: given for name, given in answers.items() if given}
    entries = []
    if REFERENCE in answers:
        with LLM(model=str(folder), dtype="bf16", drafter="none", max_rows=1) as llm:
            for arm in arms:
                if arm.name != REFERENCE and arm.name in answers:
                    pair = (answers[REFERENCE], answers[arm.name])
                    entry = _agreement(arm.name, REFERENCE, pair)
                    if arm.precision == "bf16":
                        entry["near_ties"], entry["margins"] = _near_ties(llm, prompts, pair)
                    entries.append(entry)
    for arm in arms:
        plain = f"{arm.name.rpartition(' ')[0]} plain"
        if arm.name in answers and plain in answers and plain not in (arm.name, REFERENCE):
            entries.append(_agreement(arm.name, plain, (answers[plain], answers[arm.name])))
    return [{**entry, "same_on_repeat": same_on_repeat(entry["arm"], found)} for entry in entries]


Pair = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]


def _agreement(name: str, reference: str, pair: Pair) -> dict[str, Any]:
    places = [first_difference(expected, actual) for expected, actual in zip(*pair, strict=True)]
    return {
        "arm": name,
        "reference": reference,
        "prompts": len(places),
        "equal": places.count(None),
        "first_differences": places,
        "near_ties": None,
        "margins": None,
    }


def _near_ties(llm: LLM, prompts: PromptSet, pair: Pair) -> tuple[int, list[float | None]]:
    params = SamplingParams(temperature=0.0)
    differences = [
        explain(llm, prompt.id, prompt.token_ids, params, expected=expected, actual=actual)
        for prompt, expected, actual in zip(prompts.prompts, *pair, strict=True)
    ]
    real = [difference for difference in differences if difference is not None]
    bound = near_tie_bound("bf16")
    return sum(is_near_tie(each, bound) for each in real), [each.margin for each in real]


def absences(absent: Absent, found: Measurement) -> list[dict[str, Any]]:
    """Return what has no figure: arms that did not start, and those that could not be asked with so many at once."""
    never = [{"arm": name, "rows": None, "reason": reason} for name, reason in absent.items()]
    return never + [{"arm": name, "rows": rows, "reason": why} for (name, rows), why in found.missing.items()]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--environments", type=Path, default=cache_folder() / "peers", help="what install.sh filled")
    parser.add_argument("--weights", type=Path, help="folder for converted weights; default: beside the environments")
    parser.add_argument("--arms", default="*", help="names with *, separated by commas; --list shows them")
    parser.add_argument("--drafters", default="auto", help="Config.drafter of our speculative arms, with commas")
    parser.add_argument("--list", action="store_true", help="show the names of all arms and end")
    parser.add_argument("--prompts", default="mt-bench")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--concurrency", type=numbers, default=(1, 4, 8), help="prompts answered at once, with commas")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--turn-seconds", type=float, default=300.0, help="longest wait for one turn")
    parser.add_argument("--ratios", default="bf16", help="precisions whose ratio is printed: those held to be equal")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    return parser.parse_args()


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report_of(
    options: argparse.Namespace,
    arms: Sequence[Arm],
    prompts: PromptSet,
    weights: Weights,
    measured: tuple[Measurement, Mapping[str, Any], Absent],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    found, facts, absent = measured
    read = [value / 1e9 for value in found.bandwidth]
    plan = {"count": options.max_tokens, "repeats": options.repeats, "concurrency": list(options.concurrency)}
    return {
        "format": FORMAT,
        "provenance": provenance,
        "plan": {**plan, "threads": options.threads, "prompts": len(prompts.prompts)},
        "prompts": {"name": prompts.name, "sha256": prompts.sha256},
        "ratios": options.ratios.split(","),
        "read_bandwidth_gb_s": {"min": min(read), "max": max(read), "by_repeat": read},
        "engines": facts,
        "figures": table_of(arms, found, options.concurrency),
        "agreement": agreement(arms, found, prompts, weights.form("bf16")),
        "absent": absences(absent, found),
        "answers": {arm.name: [" ".join(map(str, given)) for given in answers_of(arm.name, found)] for arm in arms},
        "turns": [_seconds_of(turn) for turn in found.turns],
    }


def _seconds_of(turn: Turn) -> dict[str, Any]:
    place = {"arm": turn.arm, "rows": turn.rows, "repeat": turn.repeat, "group": turn.group}
    return {**place, "first": turn.first, "last": turn.last, "tokens_after_first": turn.tokens_after_first}


def main() -> None:
    options = parse_options()
    arms = all_arms(options.drafters.split(","))
    if options.list:
        print("\n".join(arm.name for arm in arms))
        return
    try:
        arms = choose(arms, options.arms)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    weights = Weights(options.model, options.weights or options.environments / "weights", options.environments)
    tokenizer = load_tokenizer(weights.form("bf16"))
    prompts = build_prompts(options.prompts, read_prompts(options.prompts), tokenizer, limit=options.limit)
    token_ids = [prompt.token_ids for prompt in prompts.prompts]
    if max(options.concurrency) > len(token_ids):
        raise SystemExit(f"{max(options.concurrency)} at once need as many prompts; there are {len(token_ids)}.")
    plan = Plan(
        count=options.max_tokens,
        repeats=options.repeats,
        concurrency=options.concurrency,
        seconds=options.turn_seconds,
    )
    provenance = gather(
        command=["python", *sys.argv],
        model={"name": options.model, "sha256": weights.sha256},
        dtype=", ".join(dict.fromkeys(arm.precision for arm in arms)),
        settings={name: str(value) for name, value in vars(options).items()},
    )
    # Room for the answer and the drafts behind it, in whole blocks.
    length = -(-(max(map(len, token_ids)) + options.max_tokens + 32) // 256) * 256
    with ExitStack() as stack:
        peers, facts, absent = start_all(arms, options, weights, length, stack)
        found = measure(peers, token_ids, plan, lambda: read_bandwidth(options.threads), say)
    if options.json is not None:  # whatever may go wrong from here on, what was measured is kept
        write_whole(options.json, json.dumps({"format": FORMAT, "turns": [asdict(turn) for turn in found.turns]}))
    report = report_of(options, arms, prompts, weights, (found, facts, absent), asdict(provenance))
    print(markdown(report))
    if options.json is not None:
        write_whole(options.json, json.dumps(report, indent=1) + "\n")
    if options.markdown is not None:
        write_whole(options.markdown, markdown(report) + "\n")
    if options.svg is not None:
        write_whole(options.svg, draw(report))


if __name__ == "__main__":
    main()
