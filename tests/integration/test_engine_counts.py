"""What is counted is what happened: usage, per-request figures and totals agree with the tokens that came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.events import GenerationStats, TokenEvent
from paradraft.core.records import FinishReason, Origin
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.ngram import NgramDrafter
from support.engines import GREEDY, LAW, VOCAB, answer, build_engine, ids_of, request, run
from support.fake_drafters import FakeDrafter, HalfRightDrafter, OracleDrafter, RandomTreeDrafter
from support.stub_target import continue_plainly

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
Build = Callable[[], FakeDrafter]


def stats_of(events: list[TokenEvent]) -> GenerationStats:
    stats = events[-1].stats
    assert stats is not None
    return stats


@pytest.mark.parametrize("limit", range(1, 21))
def test_an_answer_cut_by_its_limit_is_charged_for_the_tokens_it_delivered(limit: int) -> None:
    engine = build_engine(OracleDrafter(LAW))
    events = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=limit, logprobs=0)))["a", 0]
    delivered = ids_of(events)
    assert delivered == continue_plainly(LAW, PROMPT, limit)
    assert sum(len(event.logprobs) for event in events) == len(delivered) == engine.totals.committed
    assert sum(len(event.pieces) for event in events) == len(delivered)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_stop_inside_a_burst_leaves_no_count_of_what_came_behind_it(at: int) -> None:
    plain = continue_plainly(LAW, PROMPT, 24)
    engine = build_engine(OracleDrafter(LAW), gamma=8, nodes=8)
    params = replace(GREEDY, stop_token_ids=(plain[at],))
    events = run(engine, request("a", PROMPT, params))["a", 0]
    stats = stats_of(events)
    drafted = sum(origin is Origin.DRAFTED for event in events for origin in event.origins)
    assert engine.totals.committed == len(ids_of(events)) == plain.index(plain[at]) + 1
    assert stats.accepted - stats.dropped == drafted
    assert stats.drafted - stats.accepted >= 0


def test_the_figures_of_all_requests_add_up_to_the_engines_totals() -> None:
    engine = build_engine(RandomTreeDrafter(VOCAB, seed=4, law=LAW), gamma=5, nodes=10, max_step_tokens=20)
    params = [replace(GREEDY, max_tokens=10 + at, n=1 + at % 2, gamma=[None, 3, 0][at % 3]) for at in range(6)]
    events = run(engine, *(request(str(at), PROMPT[: 2 + at], each) for at, each in enumerate(params)))
    each, all_ = [stats_of(found) for found in events.values()], engine.totals.tally.snapshot()
    for name in ("passes", "rounds", "round_tokens", "drafted", "accepted", "dropped"):
        assert getattr(all_, name) == sum(getattr(stats, name) for stats in each), name
    for name in ("drafted_by_depth", "accepted_by_depth"):
        columns = [getattr(stats, name) for stats in each]
        total = [sum(column[depth] for column in columns if depth < len(column)) for depth in range(5)]
        assert list(getattr(all_, name)) == total
    assert engine.totals.finished == len(events)


def test_a_drafter_gone_bad_shows_in_the_figures_although_the_text_is_right() -> None:
    taus = []
    for drafter in (OracleDrafter(LAW), RandomTreeDrafter(VOCAB, seed=1)):
        events = run(build_engine(drafter), request("a", PROMPT, replace(GREEDY, max_tokens=60)))["a", 0]
        assert ids_of(events) == continue_plainly(LAW, PROMPT, 60)
        taus.append(stats_of(events).tau)
    assert taus[0] == 5.0
    assert taus[1] < 1.5


def test_every_step_of_a_decoding_row_gives_a_token_even_if_logits_change_from_pass_to_pass() -> None:
    rng = np.random.default_rng(0)

    def unsteady(prefix: tuple[int, ...]) -> FloatArray:
        return rng.standard_normal(VOCAB).astype(np.float32)

    engine = build_engine(HalfRightDrafter(LAW, VOCAB), law=unsteady)
    engine.add(request("a", PROMPT, replace(GREEDY, max_tokens=30)))
    for _ in range(30):
        if not engine.has_work:
            break
        (event,) = engine.step()
        assert event.token_ids
    assert not engine.has_work
    assert event.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_a_seed_gives_one_text_alone_in_any_company_in_any_order_and_after_preemptions(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=20)
    others = [request(str(at), [at, 9, 9], params, seed=at) for at in range(7)]
    mine = request("mine", PROMPT, params)
    alone = answer(build_engine(), PROMPT, params)
    for company in ([mine, *others], [*others[::-1], mine]):
        for num_pages in (256, 12):
            drafter = RandomTreeDrafter(VOCAB, seed=3, law=LAW)
            events = run(build_engine(drafter, nodes=8, num_pages=num_pages), *company)
            assert ids_of(events["mine", 0]) == alone
            assert (sum(stats_of(found).preemptions for found in events.values()) > 0) == (num_pages == 12)


@pytest.mark.parametrize("min_match", [1, 2, 4])
def test_short_matches_in_a_text_of_repeated_tags_cost_acceptance_and_no_token(min_match: int) -> None:
    tag = [60, 20, 21, 62]
    prompts = [[*tag, at, *tag, at, 60, 47, *tag[1:], *tag] for at in range(12)]
    engine = build_engine(NgramDrafter(min_match=min_match, node_cost=0.0), gamma=5, nodes=5)
    events = run(engine, *(request(str(at), prompt) for at, prompt in enumerate(prompts)))
    for at, prompt in enumerate(prompts):
        assert ids_of(events[str(at), 0]) == continue_plainly(LAW, prompt, 24)
