"""Engines over the stub target, and the answers they give."""

from __future__ import annotations

import itertools
from dataclasses import replace

from paradraft.core.events import TokenEvent
from paradraft.core.grammar import Grammars
from paradraft.core.ports import Clock, Drafter
from paradraft.core.requests import Request
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule
from support.byte_tokenizer import ByteTokenizer
from support.fake_drafters import FakeDrafter
from support.stub_target import Law, StubTarget, hashed_law

VOCAB = 64
LAW = hashed_law(VOCAB)
GREEDY = SamplingParams(temperature=0.0, max_tokens=24)


class FakeClock:
    """Ticks a millisecond each time it is read."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def __call__(self) -> float:
        return next(self._ticks) / 1000


def build_engine(
    drafter: Drafter | None = None,
    *,
    law: Law = LAW,
    rule: str = "coupled",
    vocab_size: int = VOCAB,
    num_pages: int = 256,
    page_size: int = 4,
    eos_ids: tuple[int, ...] = (),
    target: StubTarget | None = None,
    clock: Clock | None = None,
    grammars: Grammars | None = None,
    **options: object,
) -> Engine:
    """Return an engine on a stub target; options are EngineOptions fields."""
    longest = min(512, num_pages * page_size)
    plain = EngineOptions(max_rows=8, longest=longest, max_step_tokens=64, gamma=4, nodes=4, is_adaptive=False)
    return Engine(
        target=target or StubTarget(law, vocab_size=vocab_size, num_pages=num_pages, page_size=page_size),
        drafter=drafter or FakeDrafter(),
        acceptor=RuleAcceptor(make_rule(rule), grammars=grammars),
        tokenizer=ByteTokenizer(vocab_size, eos_ids=eos_ids),
        pages=PageCache(num_pages=num_pages, page_size=page_size),
        options=replace(plain, **options),
        clock=clock or FakeClock(),
        grammars=grammars,
    )


def request(name: str, prompt: list[int], params: SamplingParams = GREEDY, *, seed: int = 7) -> Request:
    return Request(request_id=name, prompt=tuple(prompt), params=params, seed=seed)


def run(engine: Engine, *requests: Request) -> dict[tuple[str, int], list[TokenEvent]]:
    """Run the requests together to their ends and return the events of each (request, choice)."""
    for each in requests:
        engine.add(each)
    events: dict[tuple[str, int], list[TokenEvent]] = {}
    for _ in range(5000):
        if not engine.has_work:
            break
        for event in engine.step():
            events.setdefault((event.request_id, event.index), []).append(event)
    assert not engine.has_work, "the engine did not come to an end"
    engine.pages.check()
    return events


def ids_of(events: list[TokenEvent]) -> list[int]:
    return [token for event in events for token in event.token_ids]


def text_of(events: list[TokenEvent]) -> str:
    return "".join(event.text for event in events)


def answer(engine: Engine, prompt: list[int], params: SamplingParams = GREEDY, *, seed: int = 7) -> list[int]:
    """Return the ids of a single request's only choice."""
    return ids_of(run(engine, request("only", prompt, params, seed=seed))["only", 0])
