"""Time of the verb `accept` on the host, with a stub in the target's place: V = 49152, 8 draft nodes per row.

    python benchmarks/host_verify.py

Processor time of the thread; sampled rows under the coupled rule choose in numpy and, where the library is, natively.
Budgets in milliseconds: one greedy row 0.1, eight 0.4, one sampled row (T = 1, top-p 0.9) 0.5.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.core.ports import Chooser
from paradraft.core.records import Batch, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.native.chooser import find_chooser
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule

VOCAB_SIZE = 49152
NUM_NODES = 8
PROMPT_LEN = 500
NUM_STEPS = 20
REPEATS = 10


class ReadyScores:
    """Scores whose argmax is known already, as after a pass that computed it on the device. No taps."""

    def __init__(self, logits: FloatArray, starts: IntArray) -> None:
        self.starts = starts
        self.fed_starts = starts
        self._rows: list[FloatArray] = list(logits)
        self._best = ints(logits.argmax(axis=1))

    def argmax(self) -> IntArray:
        """Return the best ids."""
        return self._best

    def row(self, index: int) -> FloatArray:
        """Return the logits of one position."""
        return self._rows[index]

    def top(self, index: int, count: int) -> tuple[IntArray, FloatArray]:
        """Refuse: verification does not ask."""
        raise NotImplementedError

    def hidden(self, layer: int) -> FloatArray:
        """Refuse: verification does not ask."""
        raise NotImplementedError

    def attention_entropy(self, layer: int) -> FloatArray:
        """Refuse: verification does not ask."""
        raise NotImplementedError


def text_like(rng: np.random.Generator, num_rows: int) -> FloatArray:
    """Return logits [rows, V]: a bell of width 3 and a few large ones, as language models give."""
    logits = rng.standard_normal((num_rows, VOCAB_SIZE), dtype=np.float32) * 3
    for row in logits:
        row[rng.choice(VOCAB_SIZE, size=6, replace=False)] += rng.uniform(10, 18, size=6).astype(np.float32)
    return logits


def make_step(seed: int, num_rows: int, params: SamplingParams, num_right: int) -> tuple[Batch, Proposal, ReadyScores]:
    """Return a step of rows with 8 drafts, the first num_right of which are the target's favourites."""
    rng = np.random.default_rng(seed)
    starts = starts_of([NUM_NODES + 1] * num_rows)
    logits = text_like(rng, num_rows * (NUM_NODES + 1))
    best = logits.argmax(axis=1).reshape(num_rows, NUM_NODES + 1)
    drafts = [ints([*row[:num_right], *((row[num_right:-1] + 1) % VOCAB_SIZE)]) for row in best]
    history = tuple(ints(rng.integers(0, VOCAB_SIZE, size=PROMPT_LEN)) for _ in range(num_rows))
    batch = Batch(
        rows=ints(range(num_rows)),
        starts=starts_of([1] * num_rows),
        tokens=ints([tokens[-1] for tokens in history]),
        context_len=ints([PROMPT_LEN - 1] * num_rows),
        num_scored=ints([1] * num_rows),
        page_starts=starts_of([0] * num_rows),
        pages=ints([]),
        page_size=16,
        history=history,
        sampling=tuple(
            RowSampling(params=params, seed=seed, choice=row, prompt_len=PROMPT_LEN - 100, stop_ids=(2,))
            for row in range(num_rows)
        ),
    )
    return batch, Proposal.chains(drafts), ReadyScores(logits, starts)


def measure(
    name: str,
    num_rows: int,
    params: SamplingParams,
    *,
    rule: str = "coupled",
    num_right: int = 2,
    chooser: Chooser | None = None,
) -> None:
    """Print mean, median and 90th percentile over steps in milliseconds, and the mean tokens per row.

    A step is measured by the least of its repeats, so that a busy machine disturbs less.
    """
    acceptor = RuleAcceptor(make_rule(rule), chooser=chooser)
    times, num_tokens = [], 0
    for seed in range(NUM_STEPS):
        batch, proposal, scores = make_step(seed, num_rows, params, num_right)
        repeats = []
        for _ in range(REPEATS):
            begin = time.thread_time()
            verdict = acceptor.accept(batch, proposal, scores)
            repeats.append(1e3 * (time.thread_time() - begin))
        times.append(min(repeats))
        num_tokens += len(verdict.tokens)
    high = statistics.quantiles(times, n=10)[-1]
    figures = f"{statistics.mean(times):7.3f} {statistics.median(times):7.3f} {high:7.3f}"
    print(f"{name:52s} {figures}   {num_tokens / num_rows / NUM_STEPS:5.2f}")


def main() -> None:
    """Print the table."""
    print(f"{'accept':52s} {'mean':>7s} {'median':>7s} {'p90':>7s}   tokens/row")
    greedy = SamplingParams(temperature=0.0)
    top_p = SamplingParams(temperature=1.0, top_p=0.9)
    measure("greedy, 1 row", 1, greedy)
    measure("greedy, 1 row, all 8 accepted", 1, greedy, num_right=8)
    measure("greedy, 8 rows", 8, greedy)
    measure("greedy, 8 rows, all 8 accepted", 8, greedy, num_right=8)
    measure("greedy with penalties, 1 row", 1, SamplingParams(temperature=0.0, repetition_penalty=1.1))
    choosers: dict[str, Chooser | None] = {"": None, ", native": find_chooser()}
    for how, chooser in choosers.items():
        if how and chooser is None:
            continue
        measure(f"T=1 top-p 0.9, 1 row{how}", 1, top_p, chooser=chooser)
        measure(f"T=1 top-p 0.9, 8 rows{how}", 8, top_p, chooser=chooser)
        cuts = SamplingParams(temperature=0.7, top_k=50, top_p=0.9, min_p=0.05)
        measure(f"T=0.7 top-k 50 top-p 0.9 min-p 0.05, 1 row{how}", 1, cuts, chooser=chooser)
        measure(f"T=1 no cut, 1 row{how}", 1, SamplingParams(temperature=1.0), chooser=chooser)
        flat = SamplingParams(temperature=1.5, top_p=0.95)
        measure(f"T=1.5 flat, top-p 0.95, 1 row{how}", 1, flat, chooser=chooser)
    for rule in ("rejection", "block", "recursive", "ratio", "typical"):
        measure(f"T=1 top-p 0.9, 1 row, rule {rule}", 1, top_p, rule=rule)


if __name__ == "__main__":
    main()
