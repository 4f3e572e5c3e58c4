"""Batches and trees as the arrays of a native pass."""

from __future__ import annotations

from paradraft.core.arrays import ints
from paradraft.core.records import Proposal
from paradraft.native.pass_layout import Taps, lay_out
from support.passes import Row, Tree, batch_of, proposal_of

NO_TAPS = Taps(hidden_layers=ints([]), entropy_layers=ints([]))
PAGE_SIZE = 4


def test_a_tree_stands_behind_the_pending_tokens_at_the_positions_of_its_depths() -> None:
    row = Row(tokens=[10, 11, 12, 13, 14, 15], cached=3, pages=[7, 2, 5])
    tree = Tree(tokens=[20, 21, 22], parents=[-1, 0, -1])
    given, starts = lay_out(batch_of([row], PAGE_SIZE), proposal_of([tree]), NO_TAPS)
    assert given.tokens.tolist() == [13, 14, 15, 20, 21, 22]
    assert given.positions.tolist() == [3, 4, 5, 6, 7, 6]
    assert given.parents.tolist() == [-1, 0, 1, 2, 3, 2]
    assert given.slots.tolist() == [31, 8, 9, 10, 11, 20]
    assert given.context_slots.tolist() == [28, 29, 30]
    assert given.context_starts.tolist() == [0, 3]
    assert (given.row_starts.tolist(), starts.tolist()) == ([0, 6], [0, 4])
    assert given.scored.tolist() == [2, 3, 4, 5]


def test_rows_follow_one_another_and_count_their_parents_from_their_own_start() -> None:
    rows = [
        Row(tokens=[1, 2, 3], pages=[0], num_scored=0),
        Row(tokens=[4, 5], cached=1, pages=[3, 1], num_scored=1),
        Row(tokens=[6, 7, 8], cached=1, pages=[2], num_scored=2),
    ]
    trees = [Tree(), Tree(tokens=[9, 9], parents=[-1, 0]), Tree()]
    given, starts = lay_out(batch_of(rows, PAGE_SIZE), proposal_of(trees), NO_TAPS)
    assert given.row_starts.tolist() == [0, 3, 6, 8]
    assert given.tokens.tolist() == [1, 2, 3, 5, 9, 9, 7, 8]
    assert given.parents.tolist() == [-1, 0, 1, -1, 0, 1, -1, 0]
    assert given.slots.tolist() == [0, 1, 2, 13, 14, 15, 9, 10]
    assert given.context_starts.tolist() == [0, 0, 1, 2]
    assert given.context_slots.tolist() == [12, 8]
    assert starts.tolist() == [0, 0, 3, 5]
    assert given.scored.tolist() == [3, 4, 5, 6, 7]


def test_every_array_is_one_that_the_core_reads() -> None:
    row = Row(tokens=[1, 2], pages=[0])
    taps = Taps(hidden_layers=ints([-1, 2]), entropy_layers=ints([0]))
    given, _ = lay_out(batch_of([row], PAGE_SIZE), Proposal.empty(1), taps)
    names = ("row_starts", "tokens", "positions", "slots", "parents", "context_starts", "context_slots", "scored")
    for name in (*names, "hidden_layers", "entropy_layers"):
        array = getattr(given, name)
        assert (array.dtype.name, array.ndim, array.flags.c_contiguous) == ("int32", 1, True), name
    assert given.hidden_layers.tolist() == [-1, 2]
