"""The merged tree in the native core proposes what the one in Python does, whatever becomes of rows and tenants."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError, ModelError, ProtocolError
from paradraft.drafters.draft import Price
from paradraft.drafters.frugal import FrugalDrafter
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.native_merged import Lookups, NativeMergedDrafter
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.layout import Table
from paradraft.native.library import LIBRARY_VARIABLE
from support.drafting import RowText, batch_for, plan_for, verdict_of
from support.guessing import saying
from support.native import needs_native
from support.twin_drafters import Speaker, Twins, agreed, require_same, require_same_guesses, twins

pytestmark = needs_native

FIXTURE = Path(__file__).parents[2] / "fixtures" / "recorded_answers.json"
VOCAB, SMALL = 49152, 11


def recorded() -> list[tuple[list[int], list[int]]]:
    return [(answer["prompt"], answer["answer"]) for answer in json.loads(FIXTURE.read_text())["answers"]]


@pytest.fixture(scope="module")
def counted() -> Table:
    known = [CountedText(ids=ints([*prompt, *answer]), prompt_len=len(prompt)) for prompt, answer in recorded()][::2]
    return count_table(known, vocab_size=VOCAB)


def small_table(source: random.Random) -> Table:
    texts = [ints([source.randrange(SMALL) for _ in range(60)]) for _ in range(4)]
    return count_table([CountedText(ids=text, prompt_len=1) for text in texts], vocab_size=SMALL)


@pytest.mark.parametrize(("nodes", "temperature"), [(8, 0.0), (12, 0.0), (8, 1.0), (12, 1.0)])
def test_recorded_answers_get_the_same_trees(counted: Table, nodes: int, temperature: float) -> None:
    pair = Twins(Lookups(table=counted), vocab_size=VOCAB, node_cost=0.0)
    for number, (prompt, answer) in enumerate(recorded()):
        speaker = Speaker(
            row=number % 2,
            text=[*prompt, *answer],
            at=len(prompt),
            tenant=str(number % 3),
            temperature=temperature,
            seed=number,
        )
        while speaker.at < len(speaker.text):
            batch = batch_for(speaker.known(2))
            pair.step(batch, plan_for(batch, nodes, 7), [speaker])
        pair.forget(speaker.row)
    assert pair.num_nodes > 3000
    pair.require_same_weights()


@pytest.mark.parametrize("kinds", [("suffix", "recent", "table"), ("table", "suffix"), ("recent",), ("suffix",)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_come_and_go_get_the_same_trees(kinds: tuple[str, ...], seed: int) -> None:
    """Small bounds, so that rings are full, tenants lose texts, and learned counts are dropped and fade."""
    source = random.Random(seed)
    lookups = Lookups(
        kinds=kinds,
        table=small_table(source),
        shared_tokens=source.choice([0, 700, 1200]),
        max_row_tokens=source.choice([40, 300]),
        max_counted_tokens=30,
        max_learned=source.choice([0, 25, 200]),
    )
    pair = Twins(lookups, vocab_size=SMALL, node_cost=source.choice([0.0, 0.05, None]))
    speakers = [new_speaker(source, row) for row in range(4)]
    for _ in range(250):
        here = source.sample(speakers, source.randrange(1, 5))
        batch = batch_for(*[speaker.known(source.choice([1, 2, 2])) for speaker in here])
        nodes = [source.randrange(0, 13) for _ in here]
        plan = replace(plan_for(batch, nodes, source.randrange(1, 9)), node_cost=0.03, draft_cost=0.02)
        pair.step(batch, plan, here)
        for speaker in here:
            if len(speaker.text) - speaker.at < 12 or source.random() < 0.1:
                change(speaker, source, speakers, pair)
    assert pair.num_nodes > 300
    pair.require_same_weights()


def new_speaker(source: random.Random, row: int) -> Speaker:
    words = [[source.randrange(SMALL) for _ in range(source.randrange(2, 7))] for _ in range(5)]
    text = [token for _ in range(source.choice([20, 90, 250])) for token in source.choice(words)]
    return Speaker(
        row=row,
        text=text,
        at=min(source.randrange(1, 20) if source.random() < 0.8 else 300, len(text) - 12),
        tenant=source.choice(["", "a", "b"]),
        temperature=source.choice([0.0, 1.0]),
        seed=source.randrange(50),
        speculate=source.random() < 0.9,
    )


def change(speaker: Speaker, source: random.Random, speakers: list[Speaker], pair: Twins) -> None:
    """Let a row end, be preempted and come back, or be taken over without anybody saying so."""
    event = source.randrange(3)
    if event == 0 and len(speaker.text) - speaker.at > 12:
        pair.forget(speaker.row)  # preempted: it comes back with what it has
        return
    if event < 2:
        pair.forget(speaker.row)
    speakers[speaker.row] = new_speaker(source, speaker.row)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_can_be_asked_one_by_one(counted: Table, temperature: float) -> None:
    python, native = twins(Lookups(table=counted), vocab_size=VOCAB)
    prompt, answer = recorded()[1]
    batch = batch_for(
        Speaker(row=0, text=[*prompt, *answer], at=len(prompt) + 30, temperature=temperature).known(2),
        RowText(tokens=prompt, row=1, params=replace(batch_for(RowText(tokens=[1])).sampling[0].params, gamma=0)),
    )
    plan = plan_for(batch, 12, 7)
    (expected, nobody), (found, none) = python.guesses(batch, plan), native.guesses(batch, plan)
    assert nobody is None
    assert none is None
    assert expected is not None
    assert found is not None
    require_same_guesses(expected, found, answer[30:36])
    require_same_guesses(expected, found, [5, 6, 7])
    budget = Budget(12, 7, 8, Price(0.0))
    one, other = grow(expected, budget), grow(found, budget)
    assert (other.tokens, other.parents, other.depths, other.sources) == (
        one.tokens,
        one.parents,
        one.depths,
        one.sources,
    )
    assert other.confidence == pytest.approx(one.confidence, rel=1e-9)
    assert other.expected == pytest.approx(one.expected, rel=1e-9)


def test_a_network_joins_it_as_it_joins_the_python_one(counted: Table) -> None:
    prompt, answer = recorded()[3]
    drafters = [
        FrugalDrafter(
            free, saying({(): {7: 0.5}}, "network"), vocab_size=VOCAB, width=8, clock=count(step=0.001).__next__
        )
        for free in twins(Lookups(table=counted), vocab_size=VOCAB)
    ]
    speaker = Speaker(row=0, text=[*prompt, *answer], at=len(prompt))
    while speaker.at < len(speaker.text):
        batch = batch_for(speaker.known(2))
        one, other = (drafter.propose(batch, plan_for(batch, 8)) for drafter in drafters)
        require_same(one, other)
        outcome = agreed(one, 0, speaker.text[speaker.at :])
        for drafter in drafters:
            drafter.observe(batch, one, None, verdict_of(outcome))  # type: ignore[arg-type]
        speaker.at += len(outcome[1])
    assert drafters[0].needs == drafters[1].needs


def test_nothing_of_a_tenant_is_told_to_another(counted: Table) -> None:
    lookups = Lookups(kinds=("suffix",), table=None)
    native = NativeMergedDrafter(lookups, vocab_size=VOCAB, width=1, node_cost=0.0)
    secret = list(range(100, 140))
    batch = batch_for(RowText(tokens=secret[:1], row=0, tenant="a"))
    native.propose(batch, plan_for(batch, 4))
    native.observe(batch, native.propose(batch, plan_for(batch, 4)), None, verdict_of(([], secret[1:])))  # type: ignore[arg-type]
    native.forget(ints([0]))
    for tenant, expected in (("a", secret[3:7]), ("b", [])):
        batch = batch_for(RowText(tokens=[9, *secret[:3]], row=1, tenant=tenant))
        assert native.propose(batch, plan_for(batch, 4)).tokens.tolist() == expected
        native.forget(ints([1]))


def test_a_text_that_cannot_be_costs_its_draft_and_nothing_more(counted: Table) -> None:
    native = NativeMergedDrafter(Lookups(table=counted), vocab_size=VOCAB)
    bad, good = batch_for(RowText(tokens=[5, VOCAB])), batch_for(RowText(tokens=[5, 6, 5], row=1))
    with pytest.raises(ProtocolError, match="49152"):
        native.propose(bad, plan_for(bad, 4))
    assert GuardedDrafter(native, vocab_size=VOCAB).propose(bad, plan_for(bad, 4)).tokens.size == 0
    assert native.propose(good, plan_for(good, 4)).tokens.size > 0


def test_a_table_that_cannot_be_is_refused(counted: Table) -> None:
    order = counted.orders[1]
    for name, value in (
        ("heads", order.heads[::-1]),
        ("begins", order.begins + np.uint32(1)),
        ("totals", np.zeros_like(order.totals)),
        ("marks", order.marks[:-1]),
        ("tokens", np.full(order.tokens.shape, VOCAB, dtype=np.uint32)),
    ):
        damaged = replace(counted, orders=(counted.orders[0], replace(order, **{name: value})))
        with pytest.raises(ProtocolError):
            NativeMergedDrafter(Lookups(table=damaged), vocab_size=VOCAB)


@pytest.mark.parametrize(
    ("lookups", "width"), [(Lookups(kinds=()), 4), (Lookups(), 4), (Lookups(kinds=("recent",)), 0)]
)
def test_sources_that_make_no_draft_are_refused(lookups: Lookups, width: int) -> None:
    with pytest.raises(ConfigError, match="make no draft"):
        NativeMergedDrafter(lookups, vocab_size=VOCAB, width=width)


def test_without_the_library_there_is_none(monkeypatch: pytest.MonkeyPatch, counted: Table) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, "/nowhere/library.so")
    with pytest.raises(ModelError, match="not built"):
        NativeMergedDrafter(Lookups(table=counted), vocab_size=VOCAB)


def test_it_is_a_source_of_guesses(counted: Table) -> None:
    assert isinstance(NativeMergedDrafter(Lookups(table=counted), vocab_size=VOCAB), GuessingDrafter)
