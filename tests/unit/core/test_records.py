from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from paradraft.core.arrays import ints, join, starts_of
from paradraft.core.records import Proposal


def test_starts_mark_the_parts_of_a_ragged_array() -> None:
    assert starts_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert starts_of([]).tolist() == [0]
    assert join([]).tolist() == []


def test_chains_are_chains() -> None:
    proposal = Proposal.chains([ints([5, 6, 7]), ints([]), ints([8])])
    assert proposal.num_nodes.tolist() == [3, 0, 1]
    assert proposal.parents.tolist() == [-1, 0, 1, -1]
    assert proposal.depths.tolist() == [1, 2, 3, 1]
    assert all(proposal.is_chain(index) for index in range(3))


def test_an_empty_proposal_has_no_nodes() -> None:
    assert Proposal.empty(4).num_nodes.tolist() == [0, 0, 0, 0]


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Proposal.empty(1).tokens = ints([1])  # type: ignore[misc]
