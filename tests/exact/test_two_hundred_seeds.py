"""The promise at a temperature, seed by seed: every drafter, gamma and batch gives plain decoding's very tokens."""

from __future__ import annotations

from functools import cache

import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.ports import Drafter
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.count import count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.recent import RecentDrafter
from paradraft.kv.pages import PageCache
from support.engines import VOCAB, build_engine, ids_of, request, run
from support.fake_drafters import LyingDrafter, RandomTreeDrafter
from support.stub_target import StubTarget, hashed_law

SEEDS = range(200)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
DRAFTERS = ("ngram", "suffix", "suffix tree", "model", "model tree", "random tree", "liar", "merged")


def law(prefix: tuple[int, ...], *, salt: int = 0) -> FloatArray:
    """Logits that hang on the last two tokens, so that texts repeat themselves."""
    return hashed_law(VOCAB, spread=3.0, salt=salt)(prefix[-2:])


def half_known(prefix: tuple[int, ...]) -> FloatArray:
    """A draft model that agrees with the target after every other prefix."""
    return law(prefix, salt=sum(prefix[-2:]) % 2)


def model_drafter(branching: tuple[int, ...]) -> ModelDrafter:
    return ModelDrafter(
        target=StubTarget(half_known, vocab_size=VOCAB, num_pages=256, page_size=4),
        pages=PageCache(num_pages=256, page_size=4),
        vocab_size=VOCAB,
        options=ModelDrafterOptions(branching=branching),
    )


def model_table() -> TableDrafter:
    """A table that starts empty and learns from answer to answer."""
    return TableDrafter(count_table([], vocab_size=VOCAB))


def make(name: str) -> Drafter:
    made: dict[str, Drafter] = {
        "ngram": NgramDrafter(node_cost=0.0),
        "suffix": SuffixDrafter(node_cost=0.0),
        "suffix tree": SuffixDrafter(node_cost=0.0, width=3),
        "model": model_drafter(()),
        "model tree": model_drafter((3, 2, 1)),
        "random tree": RandomTreeDrafter(VOCAB, seed=4, law=law),
        "liar": LyingDrafter(5),
        "merged": MergedDrafter(
            [SuffixDrafter(), RecentDrafter(), model_table()], vocab_size=VOCAB, node_cost=0.0, is_coupled=True
        ),
    }
    return GuardedDrafter(made[name], vocab_size=VOCAB)


def texts(drafter: Drafter | None, temperature: float) -> tuple[list[list[int]], int]:
    """Answer all seeds, eight at a time and each with a gamma of its own; return the ids and how many drafts stood."""
    engine = build_engine(drafter, law=law, gamma=8, nodes=12)
    params = [SamplingParams(temperature=temperature, max_tokens=10, gamma=1 + seed % 8) for seed in SEEDS]
    requests = [request(str(seed), PROMPT, params[seed], seed=seed) for seed in SEEDS]
    events = run(engine, *requests)
    return [ids_of(events[str(seed), 0]) for seed in SEEDS], engine.totals.tally.snapshot().accepted


@cache
def plain(temperature: float) -> list[list[int]]:
    return texts(None, temperature)[0]


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("name", DRAFTERS)
def test_two_hundred_seeds_give_plain_tokens(name: str, temperature: float) -> None:
    answers, accepted = texts(make(name), temperature)
    assert answers == plain(temperature)
    assert accepted > 0
    assert len({tuple(answer) for answer in answers}) > 150
