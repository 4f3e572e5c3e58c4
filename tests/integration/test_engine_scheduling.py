"""Draft lengths and verification over whole requests, on a clock that passes and drafts move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.ports import Drafter, Needs
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule
from support.byte_tokenizer import ByteTokenizer
from support.engines import LAW, VOCAB, answer, build_engine, ids_of, request, run
from support.fake_drafters import FakeDrafter, HalfRightDrafter, OracleDrafter, RandomTreeDrafter, WrongDrafter
from support.stub_target import StubTarget, StubTicket

LONG = SamplingParams(temperature=0.0, max_tokens=400)
PASS, TOKEN = 0.010, 0.0006  # seconds of a pass over one token, and of each token more


class HandClock:
    """Shows what it was moved to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SlowTarget(StubTarget):
    """Moves the clock by what a pass costs."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(LAW, vocab_size=VOCAB, num_pages=512, page_size=4)
        self._clock = clock

    def submit(self, batch: Batch, proposal: Proposal) -> StubTicket:
        self._clock.now += PASS + TOKEN * (len(batch.tokens) + len(proposal.tokens) - 1)
        return super().submit(batch, proposal)


class SlowDrafter(FakeDrafter):
    """Another drafter that takes time where it may draft, and more the longer the text is."""

    def __init__(self, inner: Drafter, clock: HandClock, seconds: float, per_token: float = 0.0) -> None:
        super().__init__()
        self._inner, self._clock = inner, clock
        self._seconds, self._per_token = seconds, per_token
        self.drafted_at: list[int] = []

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        if plan.num_nodes.any():
            length = len(batch.history[0])
            self._clock.now += self._seconds + self._per_token * length
            self.drafted_at.append(length)
        return self._inner.propose(batch, plan)


class Weighing(SlowDrafter):
    """Says of itself that it weighs its nodes, and is sure of them."""

    needs = Needs(sources=("fake",), weighs_nodes=True)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        proposal = super().propose(batch, plan)
        return replace(proposal, confidence=(0.97**proposal.depths).astype(np.float32))


def slow_engine(drafter: Drafter, clock: HandClock, **options: object) -> Engine:
    plain = EngineOptions(max_rows=4, longest=1024, max_step_tokens=128, gamma=4, nodes=4)
    return Engine(
        target=SlowTarget(clock),
        drafter=drafter,
        acceptor=RuleAcceptor(make_rule("coupled")),
        tokenizer=ByteTokenizer(VOCAB),
        pages=PageCache(num_pages=512, page_size=4),
        options=replace(plain, **options),
        clock=clock,
    )


def seconds_of(drafter: Drafter, clock: HandClock, prompt: list[int] | None = None) -> float:
    """Return what 400 greedy tokens take, which must be the plain ones."""
    begun = clock.now
    engine = slow_engine(drafter, clock)
    assert answer(engine, prompt or [3, 1, 4], LONG) == answer(build_engine(), prompt or [3, 1, 4], LONG)
    return clock.now - begun


PLAIN_SECONDS = 400 * PASS


@pytest.mark.parametrize("kind", [SlowDrafter, Weighing], ids=["by record", "by its own weights"])
@pytest.mark.parametrize("draft_seconds", [0.0, 0.004])
def test_drafts_that_never_stand_cost_next_to_nothing(kind: type[SlowDrafter], draft_seconds: float) -> None:
    clock = HandClock()
    drafter = kind(WrongDrafter(LAW, VOCAB), clock, draft_seconds)
    assert seconds_of(drafter, clock) < 1.05 * PLAIN_SECONDS


@pytest.mark.parametrize("kind", [SlowDrafter, Weighing], ids=["by record", "by its own weights"])
def test_a_drafter_that_takes_longer_than_its_drafts_save_is_laid_off(kind: type[SlowDrafter]) -> None:
    """All four drafts stand, but making them takes as long as five passes."""
    clock = HandClock()
    drafter = kind(OracleDrafter(LAW), clock, 5.5 * PASS)
    assert seconds_of(drafter, clock) < 1.25 * PLAIN_SECONDS
    assert len(drafter.drafted_at) < 16


@pytest.mark.parametrize("kind", [SlowDrafter, Weighing], ids=["by record", "by its own weights"])
def test_drafts_that_pay_are_made_all_along(kind: type[SlowDrafter]) -> None:
    clock = HandClock()
    assert seconds_of(kind(OracleDrafter(LAW), clock, 0.2 * PASS), clock) < 0.4 * PLAIN_SECONDS


def test_a_drafter_that_grows_slow_with_the_text_is_used_while_it_pays() -> None:
    """Drafting reads the whole context again each time: worth it for a short text, not for a long one."""
    clock = HandClock()
    drafter = Weighing(OracleDrafter(LAW), clock, 0.0, per_token=4 * PASS / 250)
    assert seconds_of(drafter, clock) < PLAIN_SECONDS
    early = sum(at < 100 for at in drafter.drafted_at)
    late = sum(at >= 300 for at in drafter.drafted_at)
    assert early > 15
    assert late < 12


class ByRow(FakeDrafter):
    """Right for one row, wrong for all others."""

    def __init__(self) -> None:
        super().__init__()
        self.drafted: dict[int, int] = {}

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        paths = []
        for index, row in enumerate(batch.rows.tolist()):
            known, depth = batch.known(index).tolist(), int(plan.depth[index])
            good = OracleDrafter(LAW).path(known, depth) if plan.num_nodes[index] else []
            paths.append(ints(good if batch.history[index][0] == 1 else [(token + 1) % VOCAB for token in good]))
            self.drafted[row] = self.drafted.get(row, 0) + len(paths[-1])
        return Proposal.chains(paths)


def test_of_two_texts_the_one_that_cannot_be_foretold_is_left_alone() -> None:
    drafter = ByRow()
    engine = slow_engine(drafter, HandClock())
    events = run(engine, request("good", [1, 2, 3], LONG), request("bad", [2, 2, 3], LONG))
    good, bad = (events[name, 0][-1].stats for name in ("good", "bad"))
    assert good is not None
    assert bad is not None
    assert good.tau > 4
    assert bad.drafted < 80


class Fuzzy(RandomTreeDrafter):
    """Random trees with random confidences, rising below parents, too."""

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        proposal = super().propose(batch, plan)
        return replace(proposal, confidence=self._rng.uniform(size=len(proposal.tokens)).astype(np.float32))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_whatever_confidence_says_the_answer_is_the_plain_one(temperature: float, seed: int) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=60)
    prompts = [[5, 6, 7], [9, 9], [1, 2, 3, 4]]
    clock = HandClock()
    engine = slow_engine(Fuzzy(VOCAB, seed=seed, law=LAW), clock, nodes=9)
    found = run(engine, *(request(str(at), prompt, params) for at, prompt in enumerate(prompts)))
    assert engine.verification.num_dropped > 0
    for at, prompt in enumerate(prompts):
        assert ids_of(found[str(at), 0]) == answer(build_engine(), prompt, params)


def test_scheduling_can_be_turned_off() -> None:
    clock = HandClock()
    engine = slow_engine(Fuzzy(VOCAB, law=LAW), clock, nodes=9, schedules_verification=False)
    answer(engine, [1, 2, 3], LONG)
    assert engine.verification.num_dropped == 0


def test_confidence_that_promises_too_much_is_calibrated_while_serving() -> None:
    """The drafter claims 0.97 for levels of which four in five stand at best."""
    clock = HandClock()
    engine = slow_engine(Weighing(HalfRightDrafter(LAW, VOCAB), clock, 0.0), clock)
    for number in range(4):
        answer(engine, [number, 1, 4], LONG)
    calibration = engine.verification.calibration.current
    assert calibration.temperatures[0] > 1.5
    assert calibration.ece_after < 0.5 * calibration.ece_before
