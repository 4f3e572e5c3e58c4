"""Each promise of a proposal, broken once."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import DraftLaws, Proposal
from paradraft.drafters.check import BadProposal, check_proposal
from support.drafting import RowText, batch_for, plan_for

BATCH = batch_for(RowText(tokens=[1, 2, 3]), RowText(tokens=[4, 5], row=1))
PLAN = plan_for(BATCH, [4, 3], [3, 2])
GOOD = Proposal(
    starts=ints([0, 4, 6]),
    tokens=ints([7, 8, 7, 9, 7, 7]),
    parents=ints([-1, -1, 0, 2, -1, 0]),
    depths=ints([1, 1, 2, 3, 1, 2]),
    sources=np.ones(6, dtype=np.uint32),
    laws=DraftLaws(
        of=ints([0, 0, -1, -1, 1, -1]),
        starts=ints([0, 2, 3]),
        ids=ints([8, 7, 7]),
        probabilities=np.array([0.75, 0.25, 1.0]),
    ),
    confidence=np.full(6, 0.5, dtype=np.float32),
)
LAWS = GOOD.laws
assert LAWS is not None

NAN, NEGATIVE, SHORT = np.array([0.75, np.nan, 1.0]), np.array([1.5, -0.5, 1.0]), np.array([0.5, 0.2, 1.0])
BROKEN: dict[str, tuple[str, Proposal]] = {
    "float tokens": ("shape", replace(GOOD, tokens=GOOD.tokens.astype(np.float32))),
    "a matrix": ("shape", replace(GOOD, parents=GOOD.parents.reshape(2, 3))),
    "no array": ("shape", replace(GOOD, depths=[1, 1, 2, 3, 1, 2])),  # type: ignore[arg-type]
    "starts of too few rows": ("shape", replace(GOOD, starts=ints([0, 6]))),
    "starts that run backwards": ("shape", replace(GOOD, starts=ints([0, 7, 6]))),
    "starts that miss nodes": ("shape", replace(GOOD, starts=ints([0, 4, 5]))),
    "too few parents": ("shape", replace(GOOD, parents=GOOD.parents[:-1])),
    "a negative id": ("ids", replace(GOOD, tokens=ints([7, 8, 7, -1, 7, 7]))),
    "an id too large": ("ids", replace(GOOD, tokens=ints([7, 8, 7, 64, 7, 7]))),
    "a parent that comes later": ("tree", replace(GOOD, parents=ints([-1, -1, 3, 2, -1, 0]))),
    "its own parent": ("tree", replace(GOOD, parents=ints([-1, -1, 2, 2, -1, 0]))),
    "a parent below the root": ("tree", replace(GOOD, parents=ints([-1, -2, 0, 2, -1, 0]))),
    "a parent in another row": ("tree", replace(GOOD, parents=ints([-1, -1, 0, 2, -1, 3]))),
    "a wrong depth": ("tree", replace(GOOD, depths=ints([1, 1, 2, 2, 1, 2]))),
    "equal siblings": ("tree", replace(GOOD, tokens=ints([7, 7, 7, 9, 7, 7]))),
    "a law with NaN": ("nan", replace(GOOD, laws=replace(LAWS, probabilities=NAN))),
    "a law with a negative share": ("nan", replace(GOOD, laws=replace(LAWS, probabilities=NEGATIVE))),
    "a law that does not sum to 1": (
        "laws",
        replace(GOOD, laws=replace(LAWS, probabilities=SHORT)),
    ),
    "a law that is not there": ("laws", replace(GOOD, laws=replace(LAWS, of=ints([0, 0, -1, -1, 2, -1])))),
    "laws for other nodes": ("laws", replace(GOOD, laws=replace(LAWS, of=LAWS.of[:-1]))),
    "an empty law": ("laws", replace(GOOD, laws=replace(LAWS, starts=ints([0, 3, 3])))),
    "law starts that miss entries": ("laws", replace(GOOD, laws=replace(LAWS, starts=ints([0, 1, 2])))),
    "a law with ids outside": ("ids", replace(GOOD, laws=replace(LAWS, ids=ints([8, 99, 7])))),
    "a law with an id twice": ("laws", replace(GOOD, laws=replace(LAWS, ids=ints([8, 8, 7])))),
    "a node its law cannot give": ("laws", replace(GOOD, laws=replace(LAWS, ids=ints([8, 6, 7])))),
    "confidence of other shape": ("shape", replace(GOOD, confidence=np.ones(5, dtype=np.float32))),
    "confidence with NaN": ("nan", replace(GOOD, confidence=np.full(6, np.nan, dtype=np.float32))),
    "confidence above 1": ("nan", replace(GOOD, confidence=np.full(6, 1.1, dtype=np.float32))),
}


def test_a_good_proposal_passes() -> None:
    check_proposal(GOOD, BATCH, PLAN, 64)
    check_proposal(Proposal.empty(2), BATCH, PLAN, 64)


@pytest.mark.parametrize(("kind", "proposal"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_promise_is_found_and_named(kind: str, proposal: Proposal) -> None:
    with pytest.raises(BadProposal) as caught:
        check_proposal(proposal, BATCH, PLAN, 64)
    assert caught.value.kind == kind


@pytest.mark.parametrize(("nodes", "depth"), [([3, 3], [3, 2]), ([4, 1], [3, 1]), ([4, 3], [2, 2])])
def test_more_nodes_or_levels_than_planned_are_refused(nodes: list[int], depth: list[int]) -> None:
    with pytest.raises(BadProposal) as caught:
        check_proposal(GOOD, BATCH, plan_for(BATCH, nodes, depth), 64)
    assert caught.value.kind == "budget"


@pytest.mark.parametrize("thing", [None, "tokens", [1, 2]])
def test_something_else_than_a_proposal_is_refused(thing: object) -> None:
    with pytest.raises(BadProposal, match="not a Proposal"):
        check_proposal(thing, BATCH, PLAN, 64)  # type: ignore[arg-type]


def test_the_error_survives_copying() -> None:
    error = pickle.loads(pickle.dumps(BadProposal("tree", "crooked.")))
    assert (error.kind, error.problem) == ("tree", "crooked.")
