"""Default settings on recorded answers: drafts that stand often enough to pay, and no harm where none can."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.ports import Drafter
from paradraft.core.records import Proposal
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.scheduling.costs import NODE_COST
from support.drafting import RowText, batch_for, forget_all, plan_for, verdict_of

FIXTURE = Path(__file__).parents[1] / "fixtures" / "recorded_answers.json"
Answer = tuple[list[int], list[int]]  # prompt, answer


@dataclass
class Tally:
    """Sums over passes; `bands` holds by tenth of confidence: nodes, their confidence, those that stood."""

    passes: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0

    def __post_init__(self) -> None:
        self.bands = np.zeros((10, 3))

    @property
    def speedup(self) -> float:
        return self.tokens / (self.passes + NODE_COST * self.drafted)

    @property
    def calibration_error(self) -> float:
        return float(np.abs(self.bands[:, 1] - self.bands[:, 2]).sum() / self.bands[:, 0].sum())

    def add(self, proposal: Proposal, path: Sequence[int], num_tokens: int) -> None:
        self.passes += 1
        self.tokens += num_tokens
        self.drafted += len(proposal.tokens)
        self.accepted += len(path)
        for node, value in enumerate([] if proposal.confidence is None else proposal.confidence.tolist()):
            self.bands[min(int(value * 10), 9)] += (1.0, value, node in path)


def recorded(kind: str) -> list[Answer]:
    answers = json.loads(FIXTURE.read_text())["answers"]
    return [(each["prompt"], each["answer"]) for each in answers if each["kind"] == kind]


def unpredictable() -> list[Answer]:
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 300, 100).tolist(), rng.integers(0, 300, 128).tolist()) for _ in range(6)]


def replay(drafter: Drafter, answers: list[Answer]) -> Tally:
    tally = Tally()
    for prompt, answer in answers:
        text, at = [*prompt, *answer], len(prompt) + 1
        while at < len(text):
            batch = batch_for(RowText(tokens=text[:at], prompt_len=len(prompt)))
            proposal = drafter.propose(batch, plan_for(batch, min(7, len(text) - at - 1)))
            tokens = proposal.tokens.tolist()
            agreed = next((n for n, token in enumerate(tokens) if token != text[at + n]), len(tokens))
            path = list(range(agreed))
            tally.add(proposal, path, agreed + 1)
            drafter.observe(batch, proposal, None, verdict_of((path, text[at : at + agreed + 1])))
            at += agreed + 1
        forget_all(drafter, 0)
    return tally


@pytest.mark.parametrize("build", [NgramDrafter, SuffixDrafter], ids=["n-gram", "suffix"])
@pytest.mark.parametrize("kind", ["chat", "code", "maths"])
def test_default_drafts_pay_on_every_kind_of_text(kind: str, build: Callable[[], Drafter]) -> None:
    tally = replay(build(), recorded(kind))
    assert tally.speedup > 1.1
    assert tally.accepted / tally.drafted > 0.2


def test_suffix_drafts_pay_more_than_n_grams_where_answers_resemble_each_other() -> None:
    for kind in ("code", "maths"):
        assert replay(SuffixDrafter(), recorded(kind)).speedup > replay(NgramDrafter(), recorded(kind)).speedup


@pytest.mark.parametrize("build", [NgramDrafter, SuffixDrafter], ids=["n-gram", "suffix"])
def test_text_that_cannot_be_foretold_is_hardly_drafted_for(build: Callable[[], Drafter]) -> None:
    """A drafter that is always wrong notices, and costs next to nothing."""
    assert replay(build(), unpredictable()).speedup > 0.96


def test_estimated_and_observed_acceptance_agree() -> None:
    answers = [answer for kind in ("chat", "code", "maths") for answer in recorded(kind)]
    assert replay(SuffixDrafter(), answers).calibration_error < 0.06
