"""Host time of a whole step: plan, gather, propose, accept and commit around a target that costs nothing.

    OMP_NUM_THREADS=1 python benchmarks/host_step.py            caches warm, as between passes on another device
    OMP_NUM_THREADS=1 python benchmarks/host_step.py --cold     caches emptied by each pass, as passes on a processor do

Processor time of one thread; vocabulary 49,152, chains of 8 nodes. Sampled rows choose in numpy and, where the library
is, natively. The budget, warm: 0.25 ms for one greedy row, 1 ms for eight, 0.6 ms for one row at temperature 1 with
top-p.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.core.ports import Chooser
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.requests import Request
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.native.chooser import find_chooser
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.byte_tokenizer import ByteTokenizer
from support.fake_drafters import FakeDrafter
from support.stub_target import StubScores, StubTarget, StubTicket, hashed_law

VOCABULARY, GAMMA, PAGES = 49_152, 8, 2048
GREEDY = SamplingParams(temperature=0.0, max_tokens=400)
CASES: dict[str, tuple[int, SamplingParams]] = {
    "greedy, 1 row": (1, GREEDY),
    "greedy, 8 rows": (8, GREEDY),
    "T=1, top-p 0.9, 1 row": (1, SamplingParams(temperature=1.0, top_p=0.9, max_tokens=400)),
    "T=1, 1 row": (1, SamplingParams(temperature=1.0, max_tokens=400)),
}


def logit_rows(count: int) -> list[FloatArray]:
    """Return rows as a language model's often are: five tokens hold nearly all mass, the rest is a wide base."""
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal(VOCABULARY) * 1.5).astype(np.float32) for _ in range(count)]
    for row in rows:
        row[rng.integers(VOCABULARY, size=5)] += 14
    return rows


ROWS = logit_rows(16)
IS_COLD = "--cold" in sys.argv
WEIGHTS = np.ones(8_000_000 if IS_COLD else 0)  # more than the caches hold
BEST = ints([int(row.argmax()) for row in ROWS])


class FreeScores(StubScores):
    """Scores whose best tokens were known before."""

    def argmax(self) -> IntArray:
        """Return them."""
        return BEST[np.arange(int(self.starts[-1])) % len(BEST)]


class FreeTarget(StubTarget):
    """Answers at once."""

    def submit(self, batch: Batch, proposal: Proposal) -> StubTicket:
        """Return rows that were made before; a pass that reads weights leaves nothing else in the caches."""
        WEIGHTS.sum()
        starts = starts_of(batch.num_scored + proposal.num_nodes)
        rows = [ROWS[at % len(ROWS)] for at in range(int(starts[-1]))]
        return StubTicket(FreeScores(rows, starts, starts_of(batch.num_pending + proposal.num_nodes)))


class ChainDrafter(FakeDrafter):
    """Drafts as deep as it may."""

    def propose(self, batch: Batch, plan: Plan) -> Proposal:  # noqa: ARG002 - the port's signature
        """Return chains of any tokens, without looking at the text."""
        return Proposal.chains([ints([(7 * at) % VOCABULARY for at in range(depth)]) for depth in plan.depth.tolist()])


def build(chooser: Chooser | None) -> Engine:
    """Return an engine with nothing in it that takes time but itself."""
    return Engine(
        target=FreeTarget(hashed_law(4), vocab_size=VOCABULARY, num_pages=PAGES, page_size=16),
        drafter=ChainDrafter(),
        acceptor=RuleAcceptor(make_rule("coupled"), chooser=chooser),
        tokenizer=ByteTokenizer(VOCABULARY),
        pages=PageCache(num_pages=PAGES, page_size=16),
        options=EngineOptions(max_rows=8, longest=2000, gamma=GAMMA, nodes=GAMMA, is_adaptive=False),
        clock=time.thread_time,
    )


def step_times(rows: int, params: SamplingParams, chooser: Chooser | None) -> Sequence[float]:
    """Return the milliseconds of each step without the target's share."""
    engine = build(chooser)
    for at in range(rows):
        engine.add(Request(request_id=str(at), prompt=tuple(range(300)), params=params, seed=at))
    while engine.totals.steps < 2 * rows:
        engine.step()
    times = []
    while engine.has_work:
        before, begun = engine.totals.seconds["score"], time.thread_time()
        engine.step()
        times.append(1e3 * (time.thread_time() - begun - (engine.totals.seconds["score"] - before)))
    return times


def main() -> None:
    """Print a table."""
    print(f"{'milliseconds a step':<32}{'median':>9}{'fastest':>9}{'slowest':>9}")
    for name, (rows, params) in CASES.items():
        for how, chooser in {"": None, ", native": None if params.is_greedy else find_chooser()}.items():
            if how and chooser is None:
                continue
            times = [value for _ in range(1 if IS_COLD else 5) for value in step_times(rows, params, chooser)]
            print(f"{name + how:<32}{statistics.median(times):>9.3f}{min(times):>9.3f}{max(times):>9.3f}")


if __name__ == "__main__":
    main()
