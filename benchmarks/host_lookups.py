"""Host time of the merged tree of suffix, recent and table, in Python and in the native core, over recorded answers.

    python benchmarks/host_lookups.py --texts FILE --table FILE            caches warm
    python benchmarks/host_lookups.py --texts FILE --table FILE --cold     caches emptied before each call

FILE is what host_draft.py --record leaves. Processor time of one thread, medians over all steps but each row's first,
trees of 8 nodes, 7 deep. Both kinds of drafter must accept the same number of tokens.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from host_draft import batch_of, verdict_of, verdict_on
from replay_drafters import MERGED_WIDTH, VOCAB_SIZE, Text, merged, read_texts, recent, suffix, table

from paradraft.core.arrays import ints
from paradraft.core.ports import Drafter
from paradraft.core.records import Plan, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.native_merged import Lookups, NativeMergedDrafter
from paradraft.drafters.table.file import read_table
from paradraft.drafters.table.layout import Table

NODES, DEPTH = 8, 7
KINDS: dict[str, Callable[[Table], Drafter]] = {
    "python": lambda counted: merged(suffix(), recent(), table(counted)),
    "native": lambda counted: NativeMergedDrafter(
        Lookups(table=counted), vocab_size=VOCAB_SIZE, width=MERGED_WIDTH, node_cost=0.0, is_coupled=True
    ),
}


@dataclass
class Times:
    """Milliseconds of each call, and the tokens that came of them."""

    proposing: list[float] = field(default_factory=list)
    observing: list[float] = field(default_factory=list)
    tokens: int = 0


class Clock:
    """Times calls of one thread; a cold one reads more than the caches hold before each."""

    def __init__(self, *, is_cold: bool) -> None:
        self._weights = np.ones(8_000_000 if is_cold else 0)

    def timed(self, call: Callable[[], object], times: list[float]) -> object:
        """Return the call's result; its milliseconds go to times."""
        self._weights.sum()
        begin = time.thread_time()
        result = call()
        times.append(1e3 * (time.thread_time() - begin))
        return result


def measure(drafter: Drafter, texts: Sequence[Text], clock: Clock) -> Times:
    """Replay texts as the rows of one batch, until the first one ends."""
    times, at = Times(), [text.prompt_len for text in texts]
    count = len(texts)
    plan = Plan(
        rows=ints(range(count)),
        num_pending=ints([1] * count),
        num_nodes=ints([NODES] * count),
        depth=ints([DEPTH] * count),
        reasons=("",) * count,
    )
    sampling = tuple(
        RowSampling(
            params=SamplingParams(temperature=text.temperature),
            seed=text.seed,
            choice=0,
            prompt_len=text.prompt_len,
            stop_ids=(),
        )
        for text in texts
    )
    while all(place + DEPTH + 1 < len(text.ids) for place, text in zip(at, texts, strict=True)):
        known = [text.ids[:place] for place, text in zip(at, texts, strict=True)]
        batch = replace(batch_of(known, [text.prompt_len for text in texts]), sampling=sampling)
        proposal = clock.timed(lambda batch=batch: drafter.propose(batch, plan), times.proposing)  # type: ignore[misc]
        outcomes = [
            verdict_on(proposal, row, text.ids[at[row] :][: DEPTH + 1])  # type: ignore[arg-type]
            for row, text in enumerate(texts)
        ]
        verdict = verdict_of(outcomes)
        clock.timed(
            lambda batch=batch, proposal=proposal, verdict=verdict: drafter.observe(  # type: ignore[misc]
                batch, proposal, None, verdict
            ),
            times.observing,
        )
        at = [place + len(tokens) for place, (_, tokens) in zip(at, outcomes, strict=True)]
        times.tokens += sum(len(tokens) for _, tokens in outcomes)
    drafter.forget(ints(range(count)))
    del times.proposing[:1], times.observing[:1]
    return times


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--most", type=int, default=24, help="texts replayed")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    counted = read_table(options.table, vocab_size=VOCAB_SIZE)
    clock = Clock(is_cold=options.cold)
    print(f"{'milliseconds a step':32}{'propose':>9}{'observe':>9}{'tokens':>9}")
    for temperature in options.temperatures:
        texts = [replace(text, temperature=temperature) for text in list(read_texts(options.texts))[: options.most]]
        for rows in options.rows:
            for name, build in KINDS.items():
                drafter, found = build(counted), Times()
                for begin in range(0, len(texts) - rows + 1, rows):
                    part = measure(drafter, texts[begin : begin + rows], clock)
                    found.proposing += part.proposing
                    found.observing += part.observing
                    found.tokens += part.tokens
                what = f"T={temperature:g}, {rows} rows, {name}"
                medians = statistics.median(found.proposing), statistics.median(found.observing)
                print(f"{what:32}{medians[0]:9.3f}{medians[1]:9.3f}{found.tokens:9}", flush=True)


if __name__ == "__main__":
    main()
