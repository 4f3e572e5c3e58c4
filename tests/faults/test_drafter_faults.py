"""Whatever a drafter does, it costs its drafts: the answers stay plain decoding's and every request ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.ports import Drafter
from paradraft.core.records import Batch, FinishReason, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.suffix import SuffixDrafter
from support.drafting import build_model_drafter
from support.engines import LAW, VOCAB, build_engine, ids_of, request, run
from support.fake_drafters import BrokenDrafter, FakeDrafter, LyingDrafter, OracleDrafter, RandomTreeDrafter
from support.speakers import ManualClock

Damage = Callable[[Proposal], object]

DAMAGES: dict[str, Damage] = {
    "nothing": lambda _: None,
    "a string": lambda _: "drafts",
    "an id of -1": lambda good: replace(good, tokens=good.tokens * 0 - 1),
    "an id beyond the vocabulary": lambda good: replace(good, tokens=good.tokens + VOCAB),
    "a cycle of parents": lambda good: replace(good, parents=ints(range(len(good.tokens)))),
    "too many nodes": lambda good: replace(
        good,
        starts=good.starts * 9,
        tokens=np.tile(good.tokens, 9),
        parents=np.tile(good.parents, 9),
        depths=np.tile(good.depths, 9),
        sources=np.tile(good.sources, 9),
    ),
    "a matrix of tokens": lambda good: replace(good, tokens=good.tokens.reshape(1, -1)),
    "tokens as floats": lambda good: replace(good, tokens=good.tokens.astype(np.float64)),
    "confidence of NaN": lambda good: replace(good, confidence=np.full(len(good.tokens), np.nan, dtype=np.float32)),
    "rows that do not exist": lambda good: replace(good, starts=np.append(good.starts, good.starts[-1])),
}


class DamagedDrafter(OracleDrafter):
    """Knows what is right, and hands it over damaged every other time."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(LAW)
        self._damage = damage
        self._turn = 0

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        good = super().propose(batch, plan)
        self._turn += 1
        return self._damage(good) if self._turn % 2 and len(good.tokens) else good  # type: ignore[return-value]


class Crashing(FakeDrafter):
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        raise self._error


PARAMS = [SamplingParams(temperature=0.0, max_tokens=20), SamplingParams(temperature=0.9, max_tokens=20)]
PROMPTS = [[1, 2, 3, 4, 5], [7, 7, 7, 7], [9, 8, 9, 8, 9]]


def answers(drafter: Drafter | None, params: SamplingParams, rule: str = "coupled") -> list[list[int]]:
    engine = build_engine(drafter, rule=rule)
    names = [str(number) for number in range(len(PROMPTS))]
    events = run(engine, *[request(name, prompt, params) for name, prompt in zip(names, PROMPTS, strict=True)])
    assert all(events[name, 0][-1].finish_reason is FinishReason.LENGTH for name in names)
    return [ids_of(events[name, 0]) for name in names]


@pytest.mark.parametrize("params", PARAMS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_proposals_change_no_answer_and_are_counted(damage: Damage, params: SamplingParams) -> None:
    guard = GuardedDrafter(DamagedDrafter(damage), vocab_size=VOCAB)
    assert answers(guard, params) == answers(None, params)
    assert sum(guard.failures.values()) >= 2
    assert guard.last_reason


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), MemoryError("x"), AssertionError("x"), KeyError(3)])
def test_crashes_change_no_answer_and_are_counted_by_kind(error: Exception) -> None:
    guard = GuardedDrafter(Crashing(error), vocab_size=VOCAB)
    assert answers(guard, PARAMS[0]) == answers(None, PARAMS[0])
    assert guard.failures[type(error).__name__] >= 3


def test_a_drafter_that_fails_in_every_call_is_laid_off_and_nobody_notices() -> None:
    guard = GuardedDrafter(BrokenDrafter(), vocab_size=VOCAB, clock=ManualClock())
    assert answers(guard, PARAMS[1]) == answers(None, PARAMS[1])
    assert guard.num_pauses >= 1


@pytest.mark.parametrize("rule", ["coupled", "greedy"])
def test_a_drafter_that_lies_about_its_laws_changes_no_answer(rule: str) -> None:
    params = PARAMS[0] if rule == "greedy" else PARAMS[1]
    assert answers(GuardedDrafter(LyingDrafter(5), vocab_size=VOCAB), params, rule) == answers(None, params, rule)


@pytest.mark.parametrize("seed", range(5))
def test_random_trees_change_no_answer(seed: int) -> None:
    guard = GuardedDrafter(RandomTreeDrafter(VOCAB, seed=seed, law=LAW), vocab_size=VOCAB)
    assert answers(guard, PARAMS[1]) == answers(None, PARAMS[1])
    assert not guard.failures


def test_a_draft_model_with_broken_weights_costs_only_its_drafts() -> None:
    def broken(prefix: tuple[int, ...]) -> np.ndarray:
        return np.full(VOCAB, np.nan, dtype=np.float32)

    for params in PARAMS:
        guard = GuardedDrafter(build_model_drafter(law=broken), vocab_size=VOCAB)
        assert answers(guard, params) == answers(None, params)


def test_a_skipped_round_leaves_no_placeholder_behind() -> None:
    """When a step's token budget leaves a row out, nothing it had drafted is fed to the target later."""
    drafter = SuffixDrafter(node_cost=0.0)
    engine = build_engine(GuardedDrafter(drafter, vocab_size=VOCAB), max_step_tokens=6, max_rows=4)
    prompts = [[7, 8] * 10, [5] * 20, [1, 2, 3] * 7, [9] * 25]
    events = run(engine, *[request(str(number), prompt) for number, prompt in enumerate(prompts)])
    for number, prompt in enumerate(prompts):
        plain = ids_of(run(build_engine(), request("plain", prompt))["plain", 0])
        assert ids_of(events[str(number), 0]) == plain
