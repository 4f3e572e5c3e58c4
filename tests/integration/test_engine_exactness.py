"""Speculation never changes a token: every drafter, depth, batch and page size gives what plain decoding gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paradraft.core.ports import Drafter
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from support.engines import GREEDY, LAW, VOCAB, answer, build_engine, ids_of, request, run
from support.fake_drafters import (
    BrokenDrafter,
    HalfRightDrafter,
    LyingDrafter,
    OracleDrafter,
    RandomTreeDrafter,
    WrongDrafter,
)
from support.stub_target import continue_plainly

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
KINDS = ("oracle", "wrong", "half", "tree", "right tree", "liar", "broken")


def make(kind: str) -> Drafter:
    drafters: dict[str, Drafter] = {
        "oracle": OracleDrafter(LAW),
        "wrong": WrongDrafter(LAW, VOCAB),
        "half": HalfRightDrafter(LAW, VOCAB),
        "tree": RandomTreeDrafter(VOCAB, seed=1),
        "right tree": RandomTreeDrafter(VOCAB, seed=2, law=LAW),
        "liar": LyingDrafter(5),
        "broken": GuardedDrafter(BrokenDrafter(), vocab_size=VOCAB),
    }
    return drafters[kind]


def test_plain_decoding_equals_decoding_without_a_cache() -> None:
    assert answer(build_engine(), PROMPT) == continue_plainly(LAW, PROMPT, 24)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_greedy_tokens_do_not_depend_on_the_drafter(kind: str, gamma: int, page_size: int) -> None:
    engine = build_engine(make(kind), gamma=gamma, nodes=2 * gamma, page_size=page_size)
    assert answer(engine, PROMPT) == continue_plainly(LAW, PROMPT, 24)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_seeded_samples_do_not_depend_on_the_drafter(kind: str, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=16)
    plain = build_engine()
    drafted = build_engine(make(kind), nodes=8)
    for seed in range(12):
        assert answer(drafted, PROMPT, params, seed=seed) == answer(plain, PROMPT, params, seed=seed)


def test_a_seed_gives_one_answer_and_other_seeds_give_others() -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB))
    params = SamplingParams(temperature=2.0, max_tokens=10)
    same = {tuple(answer(engine, PROMPT, params, seed=42)) for _ in range(3)}
    others = {tuple(answer(engine, PROMPT, params, seed=seed)) for seed in range(5)}
    assert len(same) == 1
    assert len(others) == 5


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_batch_order_and_company_do_not_change_an_answer(order: tuple[int, ...]) -> None:
    params = [
        GREEDY,
        SamplingParams(temperature=1.0, max_tokens=20),
        SamplingParams(temperature=0.8, top_p=0.9, max_tokens=9),
        SamplingParams(temperature=0.0, frequency_penalty=1.0, max_tokens=30),
    ]
    prompts = [PROMPT, PROMPT[:5], [9, 9, 9], PROMPT[::-1]]
    alone = [answer(build_engine(), prompts[at], params[at], seed=at) for at in range(4)]
    engine = build_engine(RandomTreeDrafter(VOCAB, seed=3, law=LAW), nodes=6, max_step_tokens=9)
    events = run(engine, *(request(str(at), prompts[at], params[at], seed=at) for at in order))
    assert [ids_of(events[str(at), 0]) for at in range(4)] == alone


@pytest.mark.parametrize("num_pages", [9, 12, 17])
def test_preemption_changes_no_token_and_leaves_no_page_behind(num_pages: int) -> None:
    params = replace(GREEDY, max_tokens=20)
    alone = [answer(build_engine(), [at, 1, 2], params) for at in range(5)]
    drafter = HalfRightDrafter(LAW, VOCAB)
    engine = build_engine(drafter, num_pages=num_pages, longest=num_pages * 4)
    events = run(engine, *(request(str(at), [at, 1, 2], params) for at in range(5)))
    assert [ids_of(events[str(at), 0]) for at in range(5)] == alone
    stats = [events[str(at), 0][-1].stats for at in range(5)]
    assert sum(each.preemptions for each in stats if each is not None) > 0
    assert engine.pages.counts().held == 0
    # A preempted request goes on before those that never ran, so requests end in the order of their arrival.
    assert [name for name, _ in events] == [str(at) for at in range(5)]
    assert len(drafter.forgotten) == 5 + sum(each.preemptions for each in stats if each is not None)


@pytest.mark.parametrize("chunk", [1, 2, 7, 8, 29])
def test_chunks_of_a_prompt_change_nothing(chunk: int) -> None:
    prompt = [(7 * at) % VOCAB for at in range(30)]
    engine = build_engine(OracleDrafter(LAW), max_step_tokens=chunk)
    assert answer(engine, prompt) == continue_plainly(LAW, prompt, 24)


@pytest.mark.parametrize("shared", [0, 1, 3, 4, 5, 8, 11])
def test_a_shared_prefix_changes_nothing(shared: int) -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB))
    answer(engine, PROMPT)
    second = [*PROMPT[:shared], 60, 61, 62, 63]
    assert answer(engine, second) == continue_plainly(LAW, second, 24)


def test_a_conversation_reuses_its_history() -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB))
    known = list(PROMPT)
    for turn in range(4):
        events = run(engine, request("turn", known))["turn", 0]
        assert ids_of(events) == continue_plainly(LAW, known, 24)
        stats = events[-1].stats
        assert stats is not None
        assert stats.cached_prompt_tokens >= (len(known) - 4 - 4 - 1 if turn else 0)
        known += [*ids_of(events), 1, 2, 3]


def test_two_tenants_share_no_pages() -> None:
    engine = build_engine()
    answer(engine, PROMPT)
    stranger = replace(request("stranger", PROMPT), tenant="other")
    stats = run(engine, stranger)["stranger", 0][-1].stats
    assert stats is not None
    assert stats.cached_prompt_tokens == 0


def test_the_oracle_commits_gamma_plus_one_tokens_a_pass() -> None:
    for gamma in range(1, 9):
        engine = build_engine(OracleDrafter(LAW), gamma=gamma, nodes=gamma)
        stats = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=60)))["a", 0][-1].stats
        assert stats is not None
        assert stats.tau == gamma + 1
        assert stats.acceptance_rate == 1.0


def test_a_drafter_that_is_never_right_costs_nothing_but_nodes() -> None:
    engine = build_engine(WrongDrafter(LAW, VOCAB))
    stats = run(engine, request("a", PROMPT))["a", 0][-1].stats
    assert stats is not None
    assert stats.tau == 1.0
    assert stats.accepted == 0
    assert stats.drafted > 0


def test_an_accepted_draft_was_checked_even_if_it_is_the_only_one() -> None:
    for wrong_at in range(4):
        right = continue_plainly(LAW, PROMPT, 4)
        drafter = OracleDrafter(LAW)
        drafter.path = (
            lambda known, depth, right=right, wrong_at=wrong_at: (  # type: ignore[method-assign,misc]
                [*right[:wrong_at], (right[wrong_at] + 1) % VOCAB] if known == PROMPT else []
            )
        )
        assert answer(build_engine(drafter), PROMPT, replace(GREEDY, max_tokens=8)) == continue_plainly(LAW, PROMPT, 8)


def test_the_drafter_sees_every_verdict_plain_steps_included() -> None:
    drafter = OracleDrafter(LAW)
    engine = build_engine(drafter)
    first = answer(engine, PROMPT)
    second = answer(engine, PROMPT, replace(GREEDY, speculate=False))
    assert drafter.seen == {0: first + second}
