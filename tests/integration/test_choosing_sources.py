"""A request names the sources that may draft for it; its answer stays the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints, starts_of
from paradraft.core.errors import ConfigError, RequestRefused
from paradraft.core.events import GenerationStats
from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.requests import may_draft
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.engine.engine import Engine
from support.engines import LAW, VOCAB, answer, build_engine, request, run
from support.fake_drafters import FakeDrafter, RandomTreeDrafter

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]
GREEDY = SamplingParams(temperature=0.0, max_tokens=40)
WARM = SamplingParams(temperature=0.9, max_tokens=40)


class TwoHanded(RandomTreeDrafter):
    """Random trees whose nodes carry one of two bits, or both, by their token."""

    needs = Needs(sources=("left", "right"))

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        proposal = super().propose(batch, plan)
        return replace(proposal, sources=(proposal.tokens % 3 + 1).astype(np.uint32))


class Drawing(FakeDrafter):
    needs = Needs(sources=("left", "right"), is_sampled=True)


class Fork(FakeDrafter):
    """A tree that is always the same: left, both and right at the top, and something below each."""

    needs = Needs(sources=("left", "right"))

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        has_room = (plan.num_nodes >= 6) & (plan.depth >= 2)
        count = int(has_room.sum())
        return Proposal(
            starts=starts_of(np.where(has_room, 6, 0)),
            tokens=ints([1, 2, 3, 4, 5, 6] * count),
            parents=ints([-1, -1, -1, 0, 1, 2] * count),
            depths=ints([1, 1, 1, 2, 2, 2] * count),
            sources=np.array([0b01, 0b11, 0b10, 0b10, 0b01, 0b10] * count, dtype=np.uint32),
        )


def stats_of(engine: Engine, params: SamplingParams) -> GenerationStats:
    return run(engine, request("only", PROMPT, params))["only", 0][-1].stats


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
@pytest.mark.parametrize("chosen", [("auto",), ("left",), ("right",), ("left", "right"), ()])
def test_the_answer_is_the_same_whoever_drafts(sampling: SamplingParams, chosen: tuple[str, ...]) -> None:
    plain = answer(build_engine(), PROMPT, sampling)
    engine = build_engine(TwoHanded(VOCAB, law=LAW), nodes=8)
    assert answer(engine, PROMPT, replace(sampling, draft_from=chosen)) == plain


def shares_of(stats: GenerationStats) -> list[float]:
    """Return the nodes of each source for one node in all."""
    assert stats.drafted > 0
    return [count / stats.drafted for count in stats.drafted_by_source]


def test_nodes_of_others_and_what_hangs_on_them_are_left_out() -> None:
    engine = build_engine(Fork(), nodes=6)
    assert shares_of(stats_of(engine, GREEDY)) == [3 / 6, 4 / 6]
    assert shares_of(stats_of(engine, replace(GREEDY, draft_from=("left",)))) == [1.0]
    assert shares_of(stats_of(engine, replace(GREEDY, draft_from=("right",)))) == [0.0, 1.0]


def test_rows_of_one_step_choose_apart() -> None:
    events = run(
        build_engine(Fork(), nodes=6),
        request("all", PROMPT, GREEDY),
        request("left", PROMPT, replace(GREEDY, draft_from=("left",))),
        request("none", PROMPT, replace(GREEDY, draft_from=())),
    )
    stats = {name: events[name, 0][-1].stats for name in ("all", "left", "none")}
    assert stats["none"].drafted == 0
    assert shares_of(stats["left"]) == [1.0]
    assert shares_of(stats["all"]) == [3 / 6, 4 / 6]


@pytest.mark.parametrize("kind", [MergedDrafter, LadderDrafter])
def test_what_is_shut_out_takes_no_nodes_from_what_is_not(kind: type) -> None:
    def drafter():
        return kind([NgramDrafter(), SuffixDrafter()], vocab_size=VOCAB, node_cost=0.0)

    both = stats_of(build_engine(drafter()), replace(GREEDY, ignore_eos=True))
    assert both.drafted_by_source
    alone = stats_of(build_engine(drafter()), replace(GREEDY, ignore_eos=True, draft_from=("suffix",)))
    assert alone.drafted_by_source[0] == 0 < alone.drafted_by_source[1]
    assert alone.drafted == alone.drafted_by_source[1]


def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RequestRefused, match=r"draft_from='middle'.*auto, none, left, right"):
        build_engine(TwoHanded(VOCAB)).check(request("x", PROMPT, replace(GREEDY, draft_from=("left", "middle"))))


def test_a_drafter_that_draws_keeps_all_of_its_sources_or_none() -> None:
    engine = build_engine(Drawing())
    with pytest.raises(RequestRefused, match=r"draft_from='left'.*law"):
        engine.check(request("x", PROMPT, replace(GREEDY, draft_from=("left",))))
    for chosen in ((), ("auto",), ("right", "left")):
        engine.check(request("x", PROMPT, replace(GREEDY, draft_from=chosen)))


@pytest.mark.parametrize("value", [(), None, "none", ["none"]])
def test_no_source_has_several_spellings(value: object) -> None:
    params = SamplingParams(draft_from=value)  # type: ignore[arg-type]
    assert params.draft_from == ()
    assert not may_draft(params)


@pytest.mark.parametrize("value", [3, ("auto", "suffix"), ("",), ("a", "none"), (1,)])
def test_what_names_no_sources_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="draft_from"):
        SamplingParams(draft_from=value)  # type: ignore[arg-type]
