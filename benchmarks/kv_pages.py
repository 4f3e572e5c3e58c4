"""Page sizes compared: unused slots, grown blocks, runs per row, and host time per step operation.

One row, then eight at a time, play a seeded mix of chats (a third shares a system prompt) with drafts of seven nodes.
No model runs: only the bookkeeping is measured. Run: python benchmarks/kv_pages.py
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray, ints
from paradraft.kv.lease import Lease
from paradraft.kv.pages import PageCache

NODES = 7
SLOTS = 16384


@dataclass
class Watch:
    """Seconds of each call, by operation."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, start: float) -> None:
        """Note a call that ends now."""
        self.seconds[name].append(time.perf_counter() - start)

    def microseconds(self, name: str) -> float:
        """Return the mean without the slowest hundredth, which are interruptions by the machine."""
        calls = sorted(self.seconds[name])
        calls = calls[: len(calls) - len(calls) // 100]
        return 1e6 * sum(calls) / max(1, len(calls))


@dataclass
class Row:
    """A request with all the tokens it will ever have."""

    lease: Lease
    tokens: IntArray
    prompt_len: int


def new_row(pages: PageCache, draw: random.Random, watch: Watch) -> Row:
    system = list(range(300)) if draw.random() < 1 / 3 else []
    prompt_len = len(system) + draw.randrange(20, 600)
    length = prompt_len + draw.randrange(20, 300)
    tokens = ints(system + [draw.randrange(49152) for _ in range(length + NODES - len(system))])
    start = time.perf_counter()
    lease = pages.open(tokens[:prompt_len])
    watch.add("open", start)
    return Row(lease, tokens, prompt_len)


def advance(row: Row, draw: random.Random, watch: Watch, *, is_tree: bool) -> None:
    """Run one step of the row: its whole prompt, or one pending token with a draft."""
    lease, pending = row.lease, max(1, row.prompt_len - row.lease.committed)
    nodes = NODES if pending == 1 else 0
    path = sorted(draw.sample(range(NODES), draw.randrange(4))) if is_tree else list(range(draw.randrange(4)))
    steps = ints(path if nodes else [])
    label = "tree" if is_tree else "chain"
    kind = f"commit {label}" if nodes else "commit prompt"
    start = time.perf_counter()
    lease.reserve(lease.committed + pending + nodes)
    watch.add("reserve", start)
    start = time.perf_counter()
    lease.stage(pending + nodes)
    watch.add("stage", start)
    start = time.perf_counter()
    lease.commit(pending, steps, row.tokens)
    watch.add(kind, start)


def play(page_size: int, num_rows: int, num_steps: int, *, is_tree: bool) -> tuple[PageCache, Watch, dict[str, float]]:
    """Play a seeded load; return the mean figures over its steps."""
    pages, watch, draw = PageCache(num_pages=SLOTS // page_size, page_size=page_size), Watch(), random.Random(1)
    rows = [new_row(pages, draw, watch) for _ in range(num_rows)]
    sums: dict[str, float] = defaultdict(float)
    generated = 0
    for step in range(num_steps):
        for index, row in enumerate(rows):
            before = row.lease.committed
            advance(row, draw, watch, is_tree=is_tree)
            generated += row.lease.committed - before if before >= row.prompt_len else 0
            if row.lease.committed + NODES >= len(row.tokens):
                start = time.perf_counter()
                row.lease.close()
                watch.add("close", start)
                rows[index] = new_row(pages, draw, watch)
        start = time.perf_counter()
        pages.note_step()
        watch.add("note step", start)
        if step % 10 == 0:
            stats = pages.stats()
            sums["samples"] += 1
            sums["fragmentation"] += stats.fragmentation
            sums["unused"] += stats.unused_slots / num_rows
            sums["runs"] += stats.mean_runs
    pages.check()
    means = {name: value / sums["samples"] for name, value in sums.items()}
    means["grown per 1000 tokens"] = 1000 * pages.stats().grown_blocks / generated
    return pages, watch, means


def print_branches(page_size: int, context: int = 1024, branches: int = 16, gamma: int = 16) -> None:
    """Print the slots of a tree of independent branches beside a copy of the context for each."""
    pages = PageCache(num_pages=SLOTS, page_size=page_size)
    lease = pages.open(ints([]))
    lease.reserve(context + branches * gamma)
    shared = len(lease.page_table) * page_size
    copies = branches * -(-(context + gamma) // page_size) * page_size
    print(
        f"{branches} branches of {gamma} on {context} tokens, pages of {page_size}: {shared} slots, "
        f"{copies} with a copy per branch ({copies / shared:.1f} times as many)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    num_steps: int = parser.parse_args().steps
    print("     page  fragment.  unused  runs     grown   not                   |  microseconds per call")
    print("rows size             slots   per  per 1000  next   evicted    CRR   |                commit")
    print(
        "                      per row row    tokens                          |  reserve stage chain  tree prompt",
        end="",
    )
    print("  open close note")
    for num_rows, page_size in itertools.product((1, 8), (8, 16, 32, 64)):
        pages, watch, means = play(page_size, num_rows, num_steps, is_tree=False)
        _, trees, _ = play(page_size, num_rows, num_steps, is_tree=True)
        stats = pages.stats()
        apart = stats.grown_apart / max(1, stats.grown_blocks)
        micro = watch.microseconds
        print(
            f"{num_rows:4d} {page_size:4d} {100 * means['fragmentation']:8.1f} %"
            f" {means['unused']:7.1f} {means['runs']:5.2f} {means['grown per 1000 tokens']:8.1f} {100 * apart:4.0f} %"
            f" {stats.evictions:8d} {stats.cache_reuse_ratio:7.2f}  | {micro('reserve'):8.2f} {micro('stage'):5.2f}"
            f" {micro('commit chain'):5.2f} {trees.microseconds('commit tree'):5.2f} {micro('commit prompt'):6.1f}"
            f" {micro('open'):5.1f} {micro('close'):5.1f} {micro('note step'):4.2f}"
        )
    print_branches(16)


if __name__ == "__main__":
    main()
