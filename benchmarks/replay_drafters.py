"""What each drafter would have had accepted over recorded answers, without a model.

    python benchmarks/replay_drafters.py --texts FOLDER                    tau by drafter and node budget
    python benchmarks/replay_drafters.py --texts FOLDER --fit              weights for drafters/priors.py
    python benchmarks/replay_drafters.py --texts FOLDER --table FILE       with a table made before

FOLDER holds what a capture leaves: NAME.npz with `ids` (all texts joined) and NAME.json, a list of {prompt_len, length,
source} in the same order. The answers are taken for what the target says. Without --table the table is counted on the
half of the texts that is not replayed, both ways round. tau counts the bonus token; all nodes are drafted, whatever
they cost. us/step is the time of propose and observe.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from host_draft import batch_of, plan_of, verdict_on

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.ports import Drafter
from paradraft.core.records import Origin, Plan, Verdict
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.file import read_table
from paradraft.drafters.table.layout import Table
from paradraft.drafters.table.recent import RecentDrafter

VOCAB_SIZE = 49152
Build = Callable[[Table], Drafter]


@dataclass(frozen=True)
class Text:
    """A recorded answer with its prompt."""

    ids: IntArray
    prompt_len: int
    source: str


@dataclass
class Tally:
    """What came of a replay."""

    steps: int = 0
    tokens: int = 0
    nodes: int = 0
    seconds: float = 0.0
    by_source: dict[str, list[int]] = field(default_factory=dict)

    @property
    def tau(self) -> float:
        """Return the tokens per step, the bonus token counted."""
        return self.tokens / max(self.steps, 1)


def suffix() -> SuffixDrafter:
    return SuffixDrafter(node_cost=0.0)


def table(counted: Table) -> TableDrafter:
    return TableDrafter(counted, node_cost=0.0)


def merged(*sources: Drafter) -> MergedDrafter:
    return MergedDrafter(sources, vocab_size=VOCAB_SIZE, node_cost=0.0)  # type: ignore[arg-type]


DRAFTERS: dict[str, Build] = {
    "n-gram": lambda _: NgramDrafter(node_cost=0.0),
    "suffix": lambda _: suffix(),
    "suffix, tree": lambda _: SuffixDrafter(node_cost=0.0, width=4),
    "table": table,
    "table, tree": lambda counted: TableDrafter(counted, node_cost=0.0, width=4),
    "recent": lambda _: RecentDrafter(node_cost=0.0),
    "ladder: suffix, table": lambda counted: LadderDrafter(
        [suffix(), table(counted)], vocab_size=VOCAB_SIZE, node_cost=0.0
    ),
    "merged: suffix, table": lambda counted: merged(suffix(), table(counted)),
    "merged: suffix, recent": lambda _: merged(suffix(), RecentDrafter()),
    "merged: recent, table": lambda counted: merged(RecentDrafter(), table(counted)),
    "merged: suffix, recent, table": lambda counted: merged(suffix(), RecentDrafter(), table(counted)),
}


def read_texts(folder: Path) -> Iterator[Text]:
    for path in sorted(folder.glob("*.npz")):
        notes = path.with_suffix(".json")
        if not notes.exists():
            notes = path.with_name("m" + path.stem[1:] + ".json")
        if not notes.exists():
            continue
        ids, at = np.load(path)["ids"], 0
        for note in json.loads(notes.read_text()):
            yield Text(ints(ids[at : at + note["length"]]), note["prompt_len"], note.get("source", ""))
            at += note["length"]


def replay(drafter: Drafter, texts: Sequence[Text], nodes: int, depth: int) -> Tally:
    tally = Tally()
    for row, text in enumerate(texts):
        before = (tally.steps, tally.tokens)
        _replay_one(drafter, text, row, plan_of(1, nodes), depth, tally)
        counts = tally.by_source.setdefault(text.source, [0, 0])
        counts[0] += tally.steps - before[0]
        counts[1] += tally.tokens - before[1]
    return tally


def _replay_one(drafter: Drafter, text: Text, row: int, plan: Plan, depth: int, tally: Tally) -> None:
    at = text.prompt_len
    plan = Plan(
        rows=ints([row]),
        num_pending=plan.num_pending,
        num_nodes=plan.num_nodes,
        depth=ints([min(depth, int(plan.num_nodes[0]))]),
        reasons=("",),
    )
    while at < len(text.ids):
        batch = batch_of([text.ids[:at]], [text.prompt_len], first_row=row)
        begin = time.perf_counter()
        proposal = drafter.propose(batch, plan)
        tally.seconds += time.perf_counter() - begin
        path, tokens = verdict_on(proposal, 0, text.ids[at : at + depth + 1])
        verdict = Verdict(
            path_starts=starts_of([len(path)]),
            path=ints(path),
            token_starts=starts_of([len(tokens)]),
            tokens=ints(tokens),
            origins=ints([int(Origin.DRAFTED)] * len(tokens)),
        )
        begin = time.perf_counter()
        drafter.observe(batch, proposal, None, verdict)  # type: ignore[arg-type]
        tally.seconds += time.perf_counter() - begin
        tally.steps += 1
        tally.tokens += len(tokens)
        tally.nodes += len(proposal.tokens)
        at += len(tokens)
    drafter.forget(ints([row]))


def folds(texts: list[Text], counted: Table | None) -> Iterator[tuple[Table, list[Text]]]:
    """Yield each table with the texts that it was not counted on."""
    if counted is not None:
        yield counted, texts
        return
    for part in (0, 1):
        known = [CountedText(ids=text.ids, prompt_len=text.prompt_len) for text in texts[1 - part :: 2]]
        yield count_table(known, vocab_size=VOCAB_SIZE), texts[part::2]


def compare(texts: list[Text], counted: Table | None, budgets: Sequence[int], names: Sequence[str], most: int) -> None:
    print(f"{'drafter':32} {'nodes':>5} {'tau':>6} {'used':>5} {'us/step':>8}  by source")
    for name in names:
        for nodes in budgets:
            total = Tally()
            for one, held_out in folds(texts, counted):
                tally = replay(DRAFTERS[name](one), held_out[:most], nodes, 8)
                total.steps, total.tokens = total.steps + tally.steps, total.tokens + tally.tokens
                total.nodes, total.seconds = total.nodes + tally.nodes, total.seconds + tally.seconds
                for source, (steps, tokens) in tally.by_source.items():
                    counts = total.by_source.setdefault(source, [0, 0])
                    counts[0], counts[1] = counts[0] + steps, counts[1] + tokens
            parts = " ".join(
                f"{source} {tokens / max(steps, 1):.3f}" for source, (steps, tokens) in total.by_source.items()
            )
            used, cost = total.nodes / max(total.steps, 1), 1e6 * total.seconds / max(total.steps, 1)
            print(f"{name:32} {nodes:5} {total.tau:6.3f} {used:5.1f} {cost:8.0f}  {parts}", flush=True)


def fit(texts: list[Text], counted: Table | None, names: Sequence[str], passes: int, most: int) -> None:
    for name in names:
        pool = None
        for number in range(passes):
            for one, held_out in folds(texts, counted):
                drafter = DRAFTERS[name](one)
                assert isinstance(drafter, MergedDrafter)
                if pool is not None:
                    drafter.pools[False] = pool
                tally = replay(drafter, held_out[:most], 8, 8)
                pool = drafter.pools[False]
                print(f"{name} pass {number}: tau {tally.tau:.3f}", flush=True)
        assert pool is not None
        for source, weights in zip(pool.names, pool.weights.sources, strict=True):
            values = ", ".join(f"{getattr(weights, slot):.2f}" for slot in weights.__slots__)
            print(f"    {source}: SourceWeights({values})")
        print(f"    depth: {tuple(round(value, 2) for value in pool.weights.depth)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--drafters", nargs="+", default=list(DRAFTERS), choices=list(DRAFTERS))
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 12])
    parser.add_argument("--most", type=int, default=10**9, help="texts replayed, of each half")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--passes", type=int, default=2)
    options = parser.parse_args()
    counted = read_table(options.table, vocab_size=VOCAB_SIZE) if options.table else None
    texts = list(read_texts(options.texts))
    print(f"{len(texts)} texts, {sum(len(text.ids) - text.prompt_len for text in texts)} tokens")
    if options.fit:
        fit(
            texts,
            counted,
            [name for name in options.drafters if name.startswith("merged")],
            options.passes,
            options.most,
        )
    else:
        compare(texts, counted, options.nodes, options.drafters, options.most)


if __name__ == "__main__":
    main()
