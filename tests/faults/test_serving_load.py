"""A short bad day: many clients, some of whom leave or ask for nonsense (the long one: benchmarks/serving_load.py)."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace
from types import ModuleType

import pytest

from paradraft.drafters.guard import GuardedDrafter
from paradraft.server.options import ServerOptions
from support.fake_drafters import HalfRightDrafter
from support.serving import BYTES, served, stub_engine
from support.source_tree import ROOT
from support.stub_target import hashed_law


@pytest.fixture(scope="module")
def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("serving_load", ROOT / "benchmarks" / "serving_load.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def arguments(url: str, **given: object) -> Namespace:
    plain = {
        "key": None,
        "pid": None,
        "cache_mb": 0.0,
        "no_compare": False,
        "clients": 24,
        "seconds": 8.0,
        "questions": 12,
        "seed": 3,
    }
    return Namespace(url=url, **{**plain, **given})


def test_a_bad_day_breaks_no_promise(load):
    drafter = GuardedDrafter(HalfRightDrafter(hashed_law(BYTES), BYTES), vocab_size=BYTES)
    engine = stub_engine(drafter=drafter, max_rows=6, num_pages=160)
    with served(engine, options=ServerOptions(max_waiting=8)) as server:
        outcome = load.asyncio.run(load.run(arguments(server.url)))
        snapshot = server.service.snapshot()
        assert server.context.switchboard.num_open == 0
    assert not outcome.broken, outcome.broken[:5]
    assert outcome.compared > 20
    assert outcome.left > 3
    assert outcome.statuses["429"] > 0, "the queue was never full"
    assert snapshot.running == snapshot.waiting == 0
    engine.pages.check()
    assert engine.pages.counts().held == 0


def test_a_server_that_says_something_else_under_load_is_found_out(load):
    with served() as server:
        step, turn = server.engine.step, iter(range(10**9))

        def strays():
            if next(turn) % 50 == 49:
                raise RuntimeError("a pass failed")
            return step()

        day = arguments(server.url, seconds=3.0, clients=4, questions=2)
        ask = load.Load.ask_alone

        async def then_stray(self) -> None:
            await ask(self)
            server.engine.step = strays

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load.Load, "ask_alone", then_stray)
            outcome = load.asyncio.run(load.run(day))
    assert outcome.broken
