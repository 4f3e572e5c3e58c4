"""The view of one row of a proposal."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.core.records import DraftLaws, Proposal
from paradraft.verify.law import Law
from paradraft.verify.tree import ROOT, RowTree
from support.steps import Draft, chain, proposal_of


def small_tree() -> Draft:
    draft = Draft()
    left = draft.add(5, ROOT)
    draft.add(6, ROOT, Law(ids=ints([6, 2]), probabilities=np.array([0.5, 1.5])))
    draft.add(5, left, Law(ids=ints([5]), probabilities=np.array([1.0])))
    return draft


def test_a_row_sees_its_own_nodes_and_laws_only() -> None:
    tree = RowTree(proposal_of([chain(9, 9), small_tree(), chain(1)]), 1, 30)
    assert tree.tokens == [5, 6, 5]
    assert list(tree.children(ROOT)) == [0, 1]
    assert list(tree.children(0)) == [2]
    assert list(tree.children(2)) == []
    assert tree.child(ROOT, 6) == 1
    assert tree.child(ROOT, 9) is None
    assert tree.path_tokens(2) == [5, 5]
    assert tree.path_tokens(ROOT) == []
    assert tree.draft_law(2).probability(5) == 1.0


def test_draft_laws_are_sorted_and_normalised() -> None:
    law = RowTree(proposal_of([small_tree()]), 0, 0).draft_law(1)
    assert law.ids is not None
    assert (law.ids.tolist(), law.probabilities.tolist()) == ([2, 6], [0.75, 0.25])


def test_a_deterministic_node_has_a_point_law() -> None:
    for proposal in (proposal_of([small_tree()]), proposal_of([chain(5)])):
        law = RowTree(proposal, 0, 0).draft_law(0)
        assert law.is_point
        assert law.probability(5) == 1.0


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, 5], [-2]])
def test_a_parent_that_does_not_come_first_is_refused(parents: list[int]) -> None:
    with pytest.raises(ProtocolError, match="parent"):
        RowTree(_with_parents(parents), 0, 0)


def _with_parents(parents: list[int]) -> Proposal:
    count = len(parents)
    return Proposal(
        starts=ints([0, count]),
        tokens=ints(range(count)),
        parents=ints(parents),
        depths=ints([1] * count),
        sources=np.ones(count, dtype=np.uint32),
    )


def test_a_branching_tree_is_no_chain() -> None:
    assert RowTree(proposal_of([chain(1, 2, 3)]), 0, 0).chain("block") == [0, 1, 2]
    with pytest.raises(ProtocolError, match="'block' checks one path"):
        RowTree(proposal_of([small_tree()]), 0, 0).chain("block")


@pytest.mark.parametrize("probabilities", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_draft_law_without_mass_is_refused(probabilities: list[float]) -> None:
    proposal = Proposal.chains(
        [ints([3])],
        laws=DraftLaws(
            of=ints([0]), starts=ints([0, 2]), ids=ints([3, 4]), probabilities=np.array(probabilities, dtype=float)
        ),
    )
    with pytest.raises(ProtocolError, match="draft law"):
        RowTree(proposal, 0, 0).draft_law(0)
