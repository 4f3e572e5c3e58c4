from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.drafters.ladder import PROBE_EVERY, LadderDrafter
from support.drafting import VOCAB, RowText, batch_for, plan_for, verdict_of
from support.guessing import Said, broken, saying


def ladder(*sources: Said, costs: list[float] | None = None) -> LadderDrafter:
    return LadderDrafter(sources, vocab_size=VOCAB, costs=costs, node_cost=0.02)


def test_the_ladder_takes_the_source_that_promises_the_most_row_by_row() -> None:
    short = Said(lambda path: {5: 0.9} if len(path) < 1 else {}, "short")
    long = Said(lambda path: {6: 0.8}, "long")
    drafter = ladder(short, long)
    proposal = drafter.propose(batch := batch_for(RowText(tokens=[1, 2])), plan_for(batch, 4))
    assert set(proposal.tokens.tolist()) == {6}
    assert set(proposal.sources.tolist()) == {0b10}


def test_the_ladder_does_not_mix_sources_in_one_draft() -> None:
    proposal = ladder(saying({(): {5: 0.9}}, "a"), saying({(): {6: 0.3}, (5,): {7: 0.9}}, "b")).propose(
        batch := batch_for(RowText(tokens=[1, 2])), plan_for(batch, 4)
    )
    assert proposal.tokens.tolist() == [5]


def test_a_dear_source_is_passed_over_while_a_cheap_one_does_as_well_and_tried_now_and_then() -> None:
    cheap = Said(lambda _: {5: 0.95}, "cheap")
    dear = Said(lambda _: {6: 0.5}, "dear")
    drafter = ladder(dear, cheap, costs=[0.5, 0.0])
    batch = batch_for(RowText(tokens=[1, 2]))
    for _ in range(10 * PROBE_EVERY):
        drafter.propose(batch, plan_for(batch, 6))
    assert cheap.num_asked == 10 * PROBE_EVERY
    assert 10 <= dear.num_asked <= 40


def test_a_dear_source_is_asked_where_the_cheap_one_is_silent() -> None:
    dear = Said(lambda _: {6: 0.8}, "dear")
    drafter = ladder(Said(lambda _: {}, "cheap"), dear, costs=[0.0, 0.5])
    batch = batch_for(RowText(tokens=[1, 2]))
    for _ in range(30):
        assert drafter.propose(batch, plan_for(batch, 6)).tokens.tolist()[:2] == [6, 6]
    assert dear.num_asked == 30


def test_a_ladder_learns_how_much_a_source_exaggerates() -> None:
    liar, honest = Said(lambda _: {5: 0.95}, "liar"), Said(lambda _: {6: 0.5}, "honest")
    drafter = ladder(liar, honest)
    batch = batch_for(RowText(tokens=[1, 2]))
    for _ in range(300):
        drafter.observe(batch, drafter.propose(batch, plan_for(batch, 4)), None, verdict_of(([], [6, 6, 7])))
    assert set(drafter.propose(batch, plan_for(batch, 4)).tokens.tolist()) == {6}


def test_a_broken_rung_leaves_the_others_standing() -> None:
    drafter = ladder(Said(broken, "bad"), saying({(): {5: 0.9}}, "good"))
    proposal = drafter.propose(batch := batch_for(RowText(tokens=[1, 2])), plan_for(batch, 4))
    assert proposal.tokens.tolist() == [5]


def test_costs_that_do_not_fit_the_sources_are_refused() -> None:
    with pytest.raises(ConfigError, match="costs"):
        ladder(saying({}), costs=[0.1, 0.2])
    with pytest.raises(ConfigError, match="costs"):
        ladder(saying({}), costs=[-1.0])
