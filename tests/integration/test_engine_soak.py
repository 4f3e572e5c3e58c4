"""A long random life of the engine: whatever comes together, every answer is plain decoding's and no page is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.events import TokenEvent, TokenLogprobs
from paradraft.core.ports import Drafter
from paradraft.core.records import FinishReason, Origin
from paradraft.core.requests import Request
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.engine.engine import Engine
from support.drafting import build_mapped_drafter, build_model_drafter
from support.engines import VOCAB, build_engine, run
from support.fake_drafters import BrokenDrafter, HalfRightDrafter, LyingDrafter, RandomTreeDrafter

EOS = 50
LIFETIMES, REQUESTS = 2, 9  # of each drafter; thousands were lived through by hand


@cache
def law(prefix: tuple[int, ...]) -> FloatArray:
    """Short memory and few likely tokens, so that texts repeat, end and contain stop texts."""
    seed = sum((at + 1) * token for at, token in enumerate(prefix[-2:]))
    logits = np.random.default_rng(seed).standard_normal(VOCAB).astype(np.float32) * np.float32(3.0)
    logits[33 + len(prefix) % 3] += np.float32(2.0)
    return logits


DRAFTERS: dict[str, Callable[[int], Drafter]] = {
    "random trees": lambda seed: RandomTreeDrafter(VOCAB, seed=seed, law=law),
    "half right": lambda _: HalfRightDrafter(law, VOCAB),
    "liar": lambda seed: LyingDrafter(seed % 60),
    "n-gram": lambda _: NgramDrafter(node_cost=0.0),
    "suffix tree": lambda _: SuffixDrafter(width=3, node_cost=0.0, shared_tokens=600),
    "model": lambda _: build_model_drafter(law=law, num_pages=40),
    "mapped model": lambda _: build_mapped_drafter(),
    "broken": lambda _: BrokenDrafter(),
}


@dataclass(frozen=True)
class Answer:
    """What a caller can see of a choice that came to its own end."""

    token_ids: tuple[int, ...]
    text: str
    logprobs: tuple[TokenLogprobs, ...]
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None
    finish_reason: FinishReason | None
    stop_reason: str | int | None


def answer_of(events: list[TokenEvent]) -> Answer:
    return Answer(
        token_ids=tuple(token for event in events for token in event.token_ids),
        text="".join(event.text for event in events),
        logprobs=tuple(entry for event in events for entry in event.logprobs),
        prompt_logprobs=next((event.prompt_logprobs for event in events if event.prompt_logprobs), None),
        finish_reason=events[-1].finish_reason,
        stop_reason=events[-1].stop_reason,
    )


def random_params(rng: random.Random) -> SamplingParams:
    odds = rng.random
    max_tokens = rng.randint(1, 40)
    return SamplingParams(
        temperature=rng.choice([0.0, 0.0, 0.7, 1.0, 1.5]),
        top_k=rng.choice([0, 0, 5]),
        top_p=rng.choice([1.0, 1.0, 0.8]),
        min_p=rng.choice([0.0, 0.0, 0.05]),
        repetition_penalty=rng.choice([1.0, 1.0, 1.3]),
        frequency_penalty=rng.choice([0.0, 0.0, 0.6, -0.5]),
        logit_bias={7: 2.0, 9: -100.0} if odds() < 0.2 else {},
        stop=tuple(rng.sample(['"', "!", "#!", '!"', "\x10"], rng.randint(0, 2))),
        stop_token_ids=(rng.randrange(VOCAB),) if odds() < 0.3 else (),
        min_tokens=rng.randint(0, max_tokens) if odds() < 0.3 else 0,
        max_tokens=max_tokens,
        ignore_eos=odds() < 0.3,
        n=rng.choice([1, 1, 1, 2, 3]),
        logprobs=rng.choice([None, None, 0, 2]),
        prompt_logprobs=rng.choice([None, None, None, 0, 2]),
        gamma=rng.choice([None, None, 0, 1, 3, 12]),
        speculate=odds() < 0.9,
    )


def random_request(rng: random.Random, number: int, longest: int) -> Request:
    stem = [(at * at) % VOCAB for at in range(longest)]  # prompts share beginnings
    shared = rng.choice([0, 3, 4, 8, 9, 20])
    own = [rng.randrange(VOCAB) for _ in range(rng.randint(1, 12))]
    return Request(
        request_id=str(number),
        prompt=tuple((stem[:shared] + own)[: longest - 1]),
        params=random_params(rng),
        seed=rng.randrange(4),
        tenant=rng.choice(["", "", "other"]),
    )


def plain_answers(request: Request, longest: int) -> dict[int, Answer]:
    """Return each choice decoded alone, without drafts, shared pages or shortage."""
    params = replace(request.params, speculate=False)
    engine = build_engine(law=law, eos_ids=(EOS,), max_rows=1, longest=longest, reuses_prefixes=False)
    events = run(engine, replace(request, params=params))
    return {choice: answer_of(found) for (_, choice), found in events.items()}


def random_engine(rng: random.Random, drafter: Drafter) -> Engine:
    page_size = rng.choice([1, 2, 4, 8])
    longest = rng.choice([40, 64])
    gamma = rng.choice([1, 3, 6])
    return build_engine(
        GuardedDrafter(drafter, vocab_size=VOCAB),
        law=law,
        eos_ids=(EOS,),
        page_size=page_size,
        num_pages=-(-longest // page_size) + rng.choice([0, 1, 20]),
        longest=longest,
        max_rows=rng.randint(1, 5),
        max_step_tokens=rng.choice([1, 3, 7, 16, 64]),
        gamma=gamma,
        nodes=gamma * rng.choice([1, 3]),
        is_adaptive=rng.random() < 0.5,
        reuses_prefixes=rng.random() < 0.8,
    )


def check_counts(events: list[TokenEvent]) -> None:
    stats = events[-1].stats
    assert stats is not None
    drafted = sum(origin is Origin.DRAFTED for event in events for origin in event.origins)
    assert drafted == stats.accepted - stats.dropped <= stats.drafted
    assert stats.passes == sum(bool(event.token_ids) for event in events)
    assert stats.round_tokens >= stats.rounds
    assert stats.recomputed <= stats.accepted * stats.preemptions


def check_answers(request: Request, events: dict[tuple[str, int], list[TokenEvent]], longest: int) -> None:
    expected = plain_answers(request, longest)
    for choice in range(request.params.n):
        found = events[request.request_id, choice]
        assert [event.finish_reason is None for event in found] == [True] * (len(found) - 1) + [False]
        assert all(len(event.pieces) == len(event.origins) == len(event.token_ids) for event in found[:-1])
        check_counts(found)
        answer = answer_of(found)
        if answer.finish_reason is FinishReason.ABORT:
            ids = expected[choice].token_ids
            assert ids[: len(answer.token_ids)] == answer.token_ids
            assert request.params.stop or expected[choice].text.startswith(answer.text)
        else:
            assert answer == expected[choice]


@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_random_life_gives_plain_answers_and_loses_no_page(kind: str) -> None:
    for lifetime in range(LIFETIMES):
        rng = random.Random(f"{kind} {lifetime}")
        engine = random_engine(rng, DRAFTERS[kind](lifetime))
        longest = engine.options.longest
        requests = [random_request(rng, number, longest) for number in range(REQUESTS)]
        waiting = list(requests)
        events: dict[tuple[str, int], list[TokenEvent]] = {}
        for _ in range(5000):
            if waiting and (not engine.has_work or rng.random() < 0.2):
                engine.add(waiting.pop())
            told = engine.step()
            if rng.random() < 0.02:
                told += engine.abort(rng.choice(requests).request_id)
            for event in told:
                events.setdefault((event.request_id, event.index), []).append(event)
            engine.pages.check()
            if not waiting and not engine.has_work:
                break
        assert not engine.has_work
        assert engine.pages.counts().held == 0
        for request in requests:
            check_answers(request, events, longest)
