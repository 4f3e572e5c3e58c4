"""What each drafter would have had accepted over recorded answers, without a model.

    python benchmarks/replay_drafters.py --texts FOLDER                    tau by drafter and node budget
    python benchmarks/replay_drafters.py --texts FOLDER --fit              weights for drafters/priors.py
    python benchmarks/replay_drafters.py --texts FOLDER --table FILE       with a table made before
    python benchmarks/replay_drafters.py --texts FILE --table FILE --said  also what confidences said and what was seen

FILE is what host_draft.py --record leaves: answers with the seeds and the temperature they were sampled with. Drafts
follow the target's noise then, as under the coupled rule: given the seed, its tokens are those that were recorded.
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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from host_draft import batch_of, plan_of, verdict_on

from paradraft.app.guessers import MERGED_WIDTH
from paradraft.core.arrays import DoubleArray, IntArray, ints, starts_of
from paradraft.core.ports import Drafter
from paradraft.core.records import Origin, Plan, Proposal, RowSampling, Verdict
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.native_merged import Lookups, NativeMergedDrafter
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
    seed: int = 0
    temperature: float = 0.0


@dataclass
class Tally:
    """What came of a replay."""

    steps: int = 0
    tokens: int = 0
    nodes: int = 0
    seconds: float = 0.0
    by_source: dict[str, list[int]] = field(default_factory=dict)
    # by tenth of confidence: nodes, their confidence, those that stood
    said: DoubleArray = field(default_factory=lambda: np.zeros((10, 3)))

    def add_said(self, proposal: Proposal, path: Sequence[int]) -> None:
        """Count each node with its confidence."""
        for node, value in enumerate([] if proposal.confidence is None else proposal.confidence.tolist()):
            self.said[min(int(value * 10), 9)] += (1.0, value, node in path)

    @property
    def tau(self) -> float:
        """Return the tokens per step, the bonus token counted."""
        return self.tokens / max(self.steps, 1)


def suffix() -> SuffixDrafter:
    return SuffixDrafter(node_cost=0.0, is_coupled=True)


def recent() -> RecentDrafter:
    return RecentDrafter(node_cost=0.0, is_coupled=True)


def table(counted: Table) -> TableDrafter:
    return TableDrafter(counted, node_cost=0.0, is_coupled=True)


def merged(*sources: Drafter) -> MergedDrafter:
    return MergedDrafter(  # type: ignore[arg-type]
        sources, vocab_size=VOCAB_SIZE, width=MERGED_WIDTH, node_cost=0.0, is_coupled=True
    )


DRAFTERS: dict[str, Build] = {
    "n-gram": lambda _: NgramDrafter(node_cost=0.0),
    "suffix": lambda _: suffix(),
    "suffix, tree": lambda _: SuffixDrafter(node_cost=0.0, width=4),
    "table": table,
    "table, tree": lambda counted: TableDrafter(counted, node_cost=0.0, width=4),
    "recent": lambda _: recent(),
    "ladder: suffix, table": lambda counted: LadderDrafter(
        [suffix(), table(counted)], vocab_size=VOCAB_SIZE, node_cost=0.0
    ),
    "merged: suffix, table": lambda counted: merged(suffix(), table(counted)),
    "merged: suffix, recent": lambda _: merged(suffix(), recent()),
    "merged: recent, table": lambda counted: merged(recent(), table(counted)),
    "merged: suffix, recent, table": lambda counted: merged(suffix(), recent(), table(counted)),
    "the same in the native core": lambda counted: NativeMergedDrafter(
        Lookups(table=counted), vocab_size=VOCAB_SIZE, width=MERGED_WIDTH, node_cost=0.0, is_coupled=True
    ),
}


def read_texts(folder: Path) -> Iterator[Text]:
    if folder.is_file():
        for line in folder.read_text().splitlines():
            note = json.loads(line)
            ids = ints([*note["prompt"], *note["answer"]])
            yield Text(ids, len(note["prompt"]), note["kind"], note.get("seed", 0), note.get("temperature", 0.0))
        return
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


def replay_texts(drafter: Drafter, texts: Sequence[Text], nodes: int, depth: int) -> Tally:
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
    params = SamplingParams(temperature=text.temperature)
    sampling = RowSampling(params=params, seed=text.seed, choice=0, prompt_len=text.prompt_len, stop_ids=())
    while at < len(text.ids):
        batch = replace(batch_of([text.ids[:at]], [text.prompt_len], first_row=row), sampling=(sampling,))
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
        tally.add_said(proposal, path)
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


def print_said(said: DoubleArray) -> None:
    """Print by tenth of confidence how many nodes there were, what they said on average and how many stood."""
    for low, (count, confidence, stood) in enumerate(said):
        if count:
            print(f"    {low / 10:.1f}: {int(count):6} nodes said {confidence / count:.3f}, stood {stood / count:.3f}")
    print(f"    calibration error {np.abs(said[:, 1] - said[:, 2]).sum() / said[:, 0].sum():.4f}")


def compare(texts: list[Text], counted: Table | None, options: argparse.Namespace) -> None:
    print(f"{'drafter':32} {'nodes':>5} {'tau':>6} {'used':>5} {'us/step':>8}  by source")
    for name in options.drafters:
        for nodes in options.nodes:
            total = Tally()
            for one, held_out in folds(texts, counted):
                tally = replay_texts(DRAFTERS[name](one), held_out[: options.most], nodes, 8)
                total.steps, total.tokens = total.steps + tally.steps, total.tokens + tally.tokens
                total.said += tally.said
                total.nodes, total.seconds = total.nodes + tally.nodes, total.seconds + tally.seconds
                for source, (steps, tokens) in tally.by_source.items():
                    counts = total.by_source.setdefault(source, [0, 0])
                    counts[0], counts[1] = counts[0] + steps, counts[1] + tokens
            parts = " ".join(
                f"{source} {tokens / max(steps, 1):.3f}" for source, (steps, tokens) in total.by_source.items()
            )
            used, cost = total.nodes / max(total.steps, 1), 1e6 * total.seconds / max(total.steps, 1)
            print(f"{name:32} {nodes:5} {total.tau:6.3f} {used:5.1f} {cost:8.0f}  {parts}", flush=True)
            if options.said:
                print_said(total.said)


def fit(texts: list[Text], counted: Table | None, names: Sequence[str], passes: int, most: int) -> None:
    is_warm = texts[0].temperature > 0.0
    for name in names:
        pool = None
        for number in range(passes):
            for one, held_out in folds(texts, counted):
                drafter = DRAFTERS[name](one)
                assert isinstance(drafter, MergedDrafter)
                if pool is not None:
                    drafter.pools[is_warm] = pool
                tally = replay_texts(drafter, held_out[:most], 8, 8)
                pool = drafter.pools[is_warm]
                print(f"{name} pass {number}: tau {tally.tau:.3f}", flush=True)
        assert pool is not None
        for source, weights in zip(pool.names, pool.weights.sources, strict=True):
            values = ", ".join(f"{getattr(weights, slot):.2f}" for slot in weights.__slots__)
            print(f"    {source}: SourceWeights({values})")
        print(f"    depth: {tuple(round(value, 2) for value in pool.weights.depth)}, noise: {pool.weights.noise:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--drafters", nargs="+", default=list(DRAFTERS), choices=list(DRAFTERS))
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 12])
    parser.add_argument("--most", type=int, default=10**9, help="texts replayed, of each half")
    parser.add_argument("--said", action="store_true", help="print confidences beside what stood")
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
        compare(texts, counted, options)


if __name__ == "__main__":
    main()
