from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from paradraft.core.records import Proposal
from paradraft.models.layout import LayoutNeeds, PassLayout, RowSpan, lay_out
from paradraft.models.visibility import Window
from support.passes import Row, Tree, batch_of, proposal_of, slots_of

SIZE = 4
CPU = torch.device("cpu")


def layout_of(
    rows: Sequence[Row], trees: Sequence[Tree] | None = None, windows: tuple[Window, ...] = (None,), groups: int = 1
) -> PassLayout:
    needs = LayoutNeeds(windows=windows, num_groups=groups, dtype=torch.float32, device=CPU)
    proposal = Proposal.empty(len(rows)) if trees is None else proposal_of(trees)
    return lay_out(batch_of(rows, SIZE), proposal, needs)


def seen_slots(span: RowSpan, token: int, num_tokens: int) -> set[int]:
    """Return the slots that a fed token of the row sees."""
    slots = (
        span.keys.index.tolist()
        if span.keys.index is not None
        else range(span.keys.first, span.keys.first + span.keys.count)
    )
    if span.is_causal:
        return set(list(slots)[: token + 1])
    if span.mask is None:
        assert num_tokens == 1
        return set(slots)
    return {slot for slot, value in zip(slots, span.mask[token].tolist(), strict=True) if value == 0.0}


def fed_slots(layout: PassLayout) -> list[int]:
    slots = layout.slots
    return slots.index.tolist() if slots.index is not None else list(range(slots.first, slots.first + slots.count))


def test_one_token_needs_no_mask_and_sees_its_whole_past():
    layout = layout_of([Row(tokens=[1, 2, 3, 4, 5, 6], cached=5, pages=[2, 3])])
    (span,) = layout.spans[None]
    assert span.mask is None
    assert span.keys.index is None
    assert seen_slots(span, 0, 1) == set(range(8, 14))
    assert layout.positions.tolist() == [5]
    assert layout.tokens.tolist() == [6]


def test_a_prompt_without_context_is_causal_without_a_mask():
    (span,) = layout_of([Row(tokens=[1, 2, 3], pages=[5])]).spans[None]
    assert span.is_causal
    assert span.mask is None
    assert seen_slots(span, 1, 3) == {20, 21}


def test_a_chunk_behind_a_context_sees_it_and_itself_up_to_each_token():
    layout = layout_of([Row(tokens=range(10), cached=6, pages=[1, 0, 4], num_scored=1)])
    (span,) = layout.spans[None]
    for token in range(4):
        assert seen_slots(span, token, 4) == set(slots_of([1, 0, 4], SIZE, range(6 + token + 1)).tolist())


def test_tree_nodes_see_the_context_the_pending_tokens_their_ancestors_and_themselves():
    pages = [7, 1, 3, 0]
    tree = Tree(tokens=[1, 2, 3, 4, 5], parents=[-1, 0, -1, 2, 1])
    layout = layout_of([Row(tokens=range(6), cached=4, pages=pages)], [tree])
    (span,) = layout.spans[None]
    for node in range(5):
        logical = [*range(6), *(6 + ancestor for ancestor in tree.path_to(node))]
        assert seen_slots(span, 2 + node, 7) == set(slots_of(pages, SIZE, logical).tolist())
    assert layout.positions.tolist() == [4, 5, 6, 7, 6, 7, 8]
    assert fed_slots(layout) == slots_of(pages, SIZE, range(4, 11)).tolist()


def test_a_tree_without_context_is_not_taken_for_a_prompt():
    (span,) = layout_of([Row(tokens=[1], pages=[5])], [Tree(tokens=[2, 3], parents=[-1, -1])]).spans[None]
    assert [seen_slots(span, token, 3) for token in range(3)] == [{20}, {20, 21}, {20, 22}]


@pytest.mark.parametrize("window", [1, 2, 3, 5, 9, 40])
def test_a_window_counts_positions_back_from_each_token(window: int):
    pages = [3, 4, 5]
    tree = Tree(tokens=[1, 2, 3], parents=[-1, -1, 1])
    (span,) = layout_of([Row(tokens=range(8), cached=6, pages=pages)], [tree], windows=(window,)).spans[window]
    positions = [*range(8), 8, 8, 9]
    for token, logical in enumerate([[], [], [8], [9], [9, 10]]):
        past = [*range(8 if token >= 2 else 7 + token), *logical]
        own = positions[6 + token]
        expected = [index for index in past if own - positions[index] < window]
        assert seen_slots(span, token, 5) == set(slots_of(pages, SIZE, expected).tolist())


def test_keys_before_every_window_are_not_even_read():
    layout = layout_of([Row(tokens=range(30), cached=29, pages=range(8))], windows=(None, 5))
    assert layout.spans[5][0].keys.count == 5
    assert layout.spans[5][0].mask is None
    assert layout.spans[None][0].keys.count == 30


def test_a_window_longer_than_the_prompt_changes_nothing():
    layout = layout_of([Row(tokens=range(7), pages=[0, 1])], windows=(None, 7, 6))
    assert layout.spans[7][0].is_causal
    assert not layout.spans[6][0].is_causal


def test_rows_of_different_shapes_stand_side_by_side():
    rows = [
        Row(tokens=range(10, 13), cached=2, pages=[9, 11]),
        Row(tokens=range(20, 29), cached=3, pages=[2, 7, 4], num_scored=0),
        Row(tokens=range(30, 32), pages=[1, 0], num_scored=2),
    ]
    trees = [Tree(tokens=[50, 51], parents=[-1, 0]), Tree(), Tree(tokens=[60], parents=[-1])]
    layout = layout_of(rows, trees)
    assert layout.fed_starts.tolist() == [0, 3, 9, 12]
    assert layout.starts.tolist() == [0, 3, 3, 6]
    assert layout.tokens.tolist() == [12, 50, 51, *range(23, 29), 30, 31, 60]
    assert layout.positions.tolist() == [2, 3, 4, *range(3, 9), 0, 1, 2]
    assert layout.scored is not None
    assert layout.scored.tolist() == [0, 1, 2, 9, 10, 11]
    assert [(span.first, span.stop) for span in layout.spans[None]] == [(0, 3), (3, 9), (9, 12)]
    expected = [slots_of(row.pages, SIZE, range(count)) for row, count in zip(rows, [5, 9, 3], strict=True)]
    for span, slots in zip(layout.spans[None], expected, strict=True):
        assert seen_slots(span, span.stop - span.first - 1, span.stop - span.first) == set(slots.tolist())
    assert fed_slots(layout) == np.concatenate([expected[0][2:], expected[1][3:], expected[2]]).tolist()


def test_masks_of_few_tokens_are_repeated_for_the_heads_of_a_group_and_of_many_are_not():
    few = layout_of([Row(tokens=range(10), cached=6, pages=range(3))], groups=3).spans[None][0]
    many = layout_of([Row(tokens=range(90), cached=6, pages=range(23))], groups=3).spans[None][0]
    assert few.mask is not None
    assert many.mask is not None
    assert few.is_folded
    assert few.mask.shape == (12, 10)
    assert torch.equal(few.mask[:4], few.mask[8:])
    assert not many.is_folded
    assert many.mask.shape == (84, 90)
