"""What drafting costs on the host, and what it brings.

    python benchmarks/host_draft.py                  time of propose and observe, by row count and history
    python benchmarks/host_draft.py --replay FILE    expected speed-up over recorded answers
    python benchmarks/host_draft.py --record FILE --prompts mt-bench gsm8k-100 --count 20 --temperature 1

FILE holds one JSON object per line: {"kind": "chat", "prompt": [ids], "answer": [ids], "seed": 7, "temperature": 1}.
A replay takes the answers as what the target says and charges a pass 1 + node_cost * nodes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.ports import Drafter
from paradraft.core.records import Batch, Origin, Plan, Proposal, RowSampling, Verdict
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.recent import RecentDrafter

GREEDY = SamplingParams(temperature=0.0)
VOCAB_SIZE = 49152
SEED = 1000  # of the first recorded answer of a set; the next have the next
DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "n-gram": NgramDrafter,
    "n-gram, all of gamma": lambda: NgramDrafter(node_cost=0.0),
    "suffix, own text": lambda: SuffixDrafter(shared_tokens=0),
    "suffix": SuffixDrafter,
    "suffix, tree": lambda: SuffixDrafter(width=4),
    "recent": RecentDrafter,
    "merged: suffix, recent": lambda: MergedDrafter([SuffixDrafter(), RecentDrafter()], vocab_size=VOCAB_SIZE),
}


def batch_of(histories: list[IntArray], prompt_lens: list[int], first_row: int = 0) -> Batch:
    count = len(histories)
    return Batch(
        rows=ints(range(first_row, first_row + count)),
        starts=starts_of([1] * count),
        tokens=ints([int(history[-1]) for history in histories]),
        context_len=ints([len(history) - 1 for history in histories]),
        num_scored=ints([1] * count),
        page_starts=starts_of([0] * count),
        pages=ints([]),
        page_size=16,
        history=tuple(histories),
        sampling=tuple(
            RowSampling(params=GREEDY, seed=row, choice=0, prompt_len=prompt_len, stop_ids=())
            for row, prompt_len in enumerate(prompt_lens)
        ),
    )


def plan_of(count: int, depth: int) -> Plan:
    return Plan(
        rows=ints(range(count)),
        num_pending=ints([1] * count),
        num_nodes=ints([depth] * count),
        depth=ints([depth] * count),
        reasons=("",) * count,
    )


def verdict_on(proposal: Proposal, index: int, truth: IntArray) -> tuple[list[int], list[int]]:
    """Return the accepted path and the tokens to commit when the target says `truth`."""
    low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
    tokens, parents = proposal.tokens[low:high].tolist(), proposal.parents[low:high].tolist()
    path: list[int] = []
    node = -1
    while len(path) + 1 < len(truth):
        said = int(truth[len(path)])
        node = next((at for at in range(len(tokens)) if parents[at] == node and tokens[at] == said), -2)
        if node < 0:
            break
        path.append(node)
    return path, truth[: len(path) + 1].tolist()


def verdict_of(outcomes: list[tuple[list[int], list[int]]]) -> Verdict:
    return Verdict(
        path_starts=starts_of([len(path) for path, _ in outcomes]),
        path=ints([node for path, _ in outcomes for node in path]),
        token_starts=starts_of([len(tokens) for _, tokens in outcomes]),
        tokens=ints([token for _, tokens in outcomes for token in tokens]),
        origins=ints([int(Origin.DRAFTED) for _, tokens in outcomes for _ in tokens]),
    )


def replay(drafter: Drafter, answers: list[dict[str, object]], gamma: int, node_cost: float) -> dict[str, list[float]]:
    """Return tokens, passes, cost and nodes by kind of prompt."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for number, answer in enumerate(answers):
        prompt, truth = ints(answer["prompt"]), ints(answer["answer"])
        text, at = np.concatenate([prompt, truth]), len(prompt) + 1
        while at < len(text):
            batch = batch_of([text[:at]], [len(prompt)], first_row=number % 3)
            proposal = drafter.propose(batch, plan_of(1, min(gamma, len(text) - at - 1)))
            outcome = verdict_on(proposal, 0, text[at:])
            drafter.observe(batch, proposal, None, verdict_of([outcome]))
            at += len(outcome[1])
            for place, value in enumerate(
                (len(outcome[1]), 1, 1 + node_cost * len(proposal.tokens), len(proposal.tokens))
            ):
                sums[str(answer["kind"])][place] += value
        drafter.forget(ints([number % 3]))
    return sums


def print_replay(path: Path, gamma: int, node_cost: float) -> None:
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = list(dict.fromkeys(answer["kind"] for answer in answers))
    print(
        f"{len(answers)} answers, gamma {gamma}, a pass costs 1 + {node_cost} per node: tau, speed-up, nodes per pass"
    )
    print("| drafter | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for name, build in DRAFTERS.items():
        sums = replay(build(), answers, gamma, node_cost)
        cells = [
            f"{tokens / passes:.3f}, **{tokens / cost:.3f}**, {nodes / passes:.2f}"
            for tokens, passes, cost, nodes in (sums[kind] for kind in kinds)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


def texts_of(kind: str, length: int, count: int) -> list[IntArray]:
    """Return histories: natural-looking ones (Zipf words in repeated phrases), or one token over and over."""
    if kind == "one token":
        return [ints([7] * (length + 400))] * count
    rng = np.random.default_rng(0)
    phrases = [ints(rng.zipf(1.3, rng.integers(3, 12)) % VOCAB_SIZE) for _ in range(300)]
    return [
        np.concatenate([phrases[int(rng.zipf(1.2)) % 300] for _ in range(length)])[: length + 400] for _ in range(count)
    ]


def record(path: Path, options: argparse.Namespace) -> None:
    """Write the default model's answers to prompts; with a temperature, the seed of each too."""
    from paradraft.app.llm import LLM
    from paradraft.hub.prompts import read_prompts
    from paradraft.lab.prompts import build_prompts

    with LLM(drafter="none", dtype=options.dtype, threads=1) as llm, path.open("w") as file:
        for source in options.prompts:
            prompts = build_prompts(source, read_prompts(source), llm.tokenizer, limit=options.count).prompts
            for first in range(0, len(prompts), options.rows):
                group = prompts[first : first + options.rows]
                params = [
                    SamplingParams(
                        temperature=options.temperature, max_tokens=options.max_tokens, seed=SEED + first + place
                    )
                    for place in range(len(group))
                ]
                results = llm.generate([list(prompt.token_ids) for prompt in group], params)
                for prompt, result, each in zip(group, results, params, strict=True):
                    line = {
                        "kind": source,
                        "prompt": prompt.token_ids,
                        "answer": result.choices[0].token_ids,
                        "seed": each.seed,
                        "temperature": each.temperature,
                    }
                    file.write(json.dumps(line) + "\n")
                file.flush()


def interpreter_speed() -> float:
    """Return nanoseconds for one turn of an empty loop, to judge the figures of a loaded machine by."""
    times = []
    for _ in range(20):
        begin = time.thread_time()
        for _ in range(10_000):
            pass
        times.append(time.thread_time() - begin)
    return min(times) * 1e5


def print_times(steps: int = 80) -> None:
    print(f"one turn of an empty loop takes {interpreter_speed():.0f} ns here")
    print(
        "microseconds for a step of all rows, gamma 7: propose median, p99; observe median; first propose (whole text)"
    )
    print("| drafter | rows x history | text | propose | p99 | observe | first |\n|---|---|---|---|---|---|---|")
    for name, build in DRAFTERS.items():
        for count, length in ((1, 2048), (8, 8192), (64, 8192)):
            for kind in ("phrases", "one token"):
                times = measure(build(), texts_of(kind, length, count), length, steps)
                print(
                    f"| {name} | {count} x {length} | {kind} | " + " | ".join(f"{value:.0f}" for value in times) + " |"
                )


def measure(drafter: Drafter, texts: list[IntArray], length: int, steps: int) -> tuple[float, float, float, float]:
    """Replay texts behind `length`; one shared document is there if the drafter keeps any."""
    proposing, observing = [], []
    lengths = [length] * len(texts)
    if isinstance(drafter, SuffixDrafter):
        drafter.shared.add("", texts[0][: length // 2])
    for _ in range(steps):
        batch = batch_of([text[:at] for text, at in zip(texts, lengths, strict=True)], [length // 2] * len(texts))
        plan = plan_of(len(texts), 7)
        begin = time.thread_time()
        proposal = drafter.propose(batch, plan)
        middle = time.thread_time()
        outcomes = [verdict_on(proposal, row, text[lengths[row] :][:5]) for row, text in enumerate(texts)]
        verdict = verdict_of(outcomes)
        before = time.thread_time()
        drafter.observe(batch, proposal, None, verdict)
        observing.append(time.thread_time() - before)
        proposing.append(middle - begin)
        lengths = [at + len(tokens) for at, (_, tokens) in zip(lengths, outcomes, strict=True)]
    later = np.array(proposing[1:]) * 1e6
    return (
        float(np.median(later)),
        float(np.quantile(later, 0.99)),
        float(np.median(observing)) * 1e6,
        proposing[0] * 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--prompts", nargs="+", default=["mt-bench"])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rows", type=int, default=1, help="answers recorded at a time")
    parser.add_argument("--gamma", type=int, default=7)
    parser.add_argument("--node-cost", type=float, default=0.05)
    options = parser.parse_args()
    if options.record:
        record(options.record, options)
    elif options.replay:
        print_replay(options.replay, options.gamma, options.node_cost)
    else:
        print_times()


if __name__ == "__main__":
    main()
