"""The words of the Drafter port, kept by every drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.ports import Drafter
from paradraft.core.records import Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.check import check_proposal
from support.drafting import (
    DRAFTERS,
    VOCAB,
    RowText,
    batch_for,
    drafts_of,
    forget_all,
    plan_for,
    propose,
    taps_of,
    verdict_of,
)
from support.engines import GREEDY, build_engine, ids_of, request, run

PHRASE = [9, 31, 4, 17, 8, 40, 22]
OTHER = [5, 50, 33, 12, 61]
SPEAKING = [name for name in DRAFTERS if name != "plain"]
Build = Callable[[], Drafter]


@pytest.fixture(params=DRAFTERS.values(), ids=DRAFTERS.keys())
def build(request: pytest.FixtureRequest) -> Build:
    maker: Build = request.param
    return maker


@pytest.fixture(params=SPEAKING)
def speaking(request: pytest.FixtureRequest) -> Build:
    return DRAFTERS[request.param]


def looping(length: int, phrase: Sequence[int] = PHRASE) -> list[int]:
    return (list(phrase) * (length // len(phrase) + 1))[:length]


@pytest.mark.parametrize(("nodes", "depth"), [(0, 0), (1, 1), (3, 2), (7, 7), (8, 3)])
def test_proposals_are_well_formed_and_within_budget(build: Build, nodes: int, depth: int) -> None:
    batch = batch_for(RowText(tokens=looping(40)), RowText(tokens=looping(23, OTHER), row=1))
    plan = plan_for(batch, nodes, depth)
    proposal = build().propose(batch, plan)
    check_proposal(proposal, batch, plan, VOCAB)


def test_a_row_without_budget_gets_no_draft(build: Build) -> None:
    batch = batch_for(RowText(tokens=looping(40)), RowText(tokens=looping(41), row=1))
    assert build().propose(batch, plan_for(batch, [0, 4])).num_nodes[0] == 0


def test_a_looping_text_is_drafted(speaking: Build) -> None:
    assert propose(speaking(), RowText(tokens=looping(40)))[0]


@pytest.mark.parametrize("params", [SamplingParams(speculate=False), SamplingParams(gamma=0)])
def test_a_request_that_wants_no_speculation_is_left_alone(build: Build, params: SamplingParams) -> None:
    assert propose(build(), RowText(tokens=looping(40), params=params)) == [[]]


@pytest.mark.parametrize("second", [looping(12, OTHER), looping(40), looping(90, OTHER)], ids=["short", "same", "long"])
@pytest.mark.parametrize("is_forgotten", [True, False], ids=["forgotten", "unannounced"])
def test_a_reused_row_number_drafts_as_if_cold(speaking: Build, second: list[int], is_forgotten: bool) -> None:
    """A second request on the same row sees nothing of the first, also if nobody said that the first had ended."""
    drafter = speaking()
    propose(drafter, RowText(tokens=looping(40), tenant="first"))
    propose(drafter, RowText(tokens=looping(43), tenant="first", prompt_len=39))
    if is_forgotten:
        forget_all(drafter, 0)
    after = RowText(tokens=second, tenant="second", seed=8)
    assert propose(drafter, after) == propose(speaking(), after)


def test_forgetting_unknown_rows_is_harmless(build: Build) -> None:
    drafter = build()
    forget_all(drafter, 3, 5)
    forget_all(drafter)
    propose(drafter, RowText(tokens=looping(40)))


def test_ten_identical_requests_are_all_drafted_for(speaking: Build) -> None:
    """Speculation does not silently stop after the first request."""
    engine = build_engine(speaking(), law=lambda prefix: _one_hot(PHRASE[len(prefix) % len(PHRASE)]))
    for number in range(10):
        name = f"request {number}"
        events = run(engine, request(name, looping(35)))[name, 0]
        assert events[-1].stats is not None
        assert events[-1].stats.drafted > 0


def _one_hot(token: int) -> np.ndarray:
    logits = np.zeros(VOCAB, dtype=np.float32)
    logits[token] = 9.0
    return logits


@pytest.mark.parametrize("name", ["n-gram", "suffix", "suffix tree"])
@pytest.mark.parametrize("phrase", [PHRASE, [7]], ids=["phrase", "one token"])
def test_long_histories_are_drafted(name: str, phrase: list[int]) -> None:
    text = looping(3010, phrase)
    drafts = propose(DRAFTERS[name](), RowText(tokens=text[:3000]))[0]
    assert [token for token, _ in drafts] == text[3000 : 3000 + len(drafts)]
    assert len(drafts) == 6


def test_rows_do_not_influence_each_other(speaking: Build) -> None:
    """The order of a batch, and who else is in it, changes no draft."""
    rows = [
        RowText(tokens=looping(40), row=0),
        RowText(tokens=looping(33, OTHER), row=1),
        RowText(tokens=looping(52, PHRASE[::-1]), row=2),
    ]
    forwards, backwards = propose(speaking(), *rows), propose(speaking(), *rows[::-1])
    alone = [propose(speaking(), row)[0] for row in rows]
    assert forwards == backwards[::-1] == alone


@pytest.mark.parametrize("chunk", [7, 8, 29])
def test_a_prompt_in_chunks_gives_the_same_first_draft(speaking: Build, chunk: int) -> None:
    text = looping(61)
    drafter = speaking()
    for cached in range(0, 60, chunk):
        row = RowText(tokens=text[:60], cached=cached, num_pending=min(chunk, 60 - cached), prompt_len=60)
        assert propose(drafter, row, nodes=0) == [[]]
    decoding = RowText(tokens=text, prompt_len=60)
    assert propose(drafter, decoding) == propose(speaking(), decoding)


def test_skipped_steps_and_bursts_do_no_harm(speaking: Build) -> None:
    """A row may sit out steps, and several tokens may arrive at once."""
    text = looping(70)
    drafter = speaking()
    for length in (30, 31, 37, 38, 60):
        propose(drafter, RowText(tokens=text[:length], prompt_len=29))
    last = RowText(tokens=text, prompt_len=29)
    assert propose(drafter, last) == propose(speaking(), last)


def test_a_row_that_comes_back_after_preemption_is_drafted_as_before(speaking: Build) -> None:
    text = looping(64)
    drafter = speaking()
    propose(drafter, RowText(tokens=text[:60], prompt_len=40, tenant="a"))
    before = propose(drafter, RowText(tokens=text, prompt_len=40, tenant="a"))
    forget_all(drafter, 0)
    again = RowText(tokens=text, prompt_len=40, tenant="a", row=3, cached=0, num_pending=32)
    assert propose(drafter, again, nodes=0) == [[]]
    resumed = propose(drafter, RowText(tokens=text, prompt_len=40, tenant="a", row=3))
    assert resumed[0][: len(before[0])] == before[0]


def test_observing_a_step_that_was_cut_short_does_no_harm(build: Build) -> None:
    """The verdict may hold fewer tokens than the draft promised, and a step may have had no proposal at all."""
    drafter = build()
    batch = batch_for(RowText(tokens=looping(40), prompt_len=35))
    proposal = drafter.propose(batch, plan_for(batch, 4))
    drafter.observe(batch, Proposal.empty(1), taps_of(batch, Proposal.empty(1)), verdict_of(([], [PHRASE[5]])))
    path = list(range(min(1, int(proposal.num_nodes[0]))))
    drafter.observe(batch, proposal, taps_of(batch, proposal), verdict_of((path, [1, 2][: len(path) + 1])))
    later = batch_for(RowText(tokens=[*looping(40), PHRASE[5]], prompt_len=35))
    check_proposal(drafter.propose(later, plan_for(later, 4)), later, plan_for(later, 4), VOCAB)


def test_greedy_answers_are_plain_decodings(build: Build) -> None:
    prompt = looping(21)
    plain = ids_of(run(build_engine(), request("plain", prompt))["plain", 0])
    assert ids_of(run(build_engine(build()), request("drafted", prompt))["drafted", 0]) == plain
    assert len(plain) == GREEDY.max_tokens


def test_proposals_do_not_alias_the_drafters_state(speaking: Build) -> None:
    drafter = speaking()
    batch = batch_for(RowText(tokens=looping(40)))
    proposal = drafter.propose(batch, plan_for(batch, 4))
    before = drafts_of(proposal, 0)
    drafter.propose(batch, plan_for(batch, 2))
    forget_all(drafter, 0)
    assert drafts_of(proposal, 0) == before
    assert ints(proposal.tokens).dtype == np.int32
