from __future__ import annotations

from paradraft.core.arrays import ints
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.rows import RowStates, is_drafting
from support.drafting import RowText, batch_for


def states() -> tuple[RowStates[list[int]], list[list[int]]]:
    dropped: list[list[int]] = []
    return RowStates(lambda batch, index: [], dropped.append), dropped


def test_a_row_keeps_its_state_while_its_text_grows() -> None:
    rows, dropped = states()
    first = rows.of(batch_for(RowText(tokens=[1, 2, 3], prompt_len=2)), 0)
    assert rows.of(batch_for(RowText(tokens=[1, 2, 3, 4, 5], prompt_len=2)), 0) is first
    assert not dropped


def test_another_request_on_the_row_gets_another_state() -> None:
    base = RowText(tokens=[1, 2, 3, 4], prompt_len=2)
    others = [
        RowText(tokens=[1, 2, 3], prompt_len=2),  # shorter
        RowText(tokens=[1, 2, 3, 9, 5], prompt_len=2),  # another text
        RowText(tokens=[1, 2, 3, 4], prompt_len=2, seed=8),
        RowText(tokens=[1, 2, 3, 4], prompt_len=2, tenant="b"),
        RowText(tokens=[1, 2, 3, 4], prompt_len=3),
    ]
    for other in others:
        rows, dropped = states()
        first = rows.of(batch_for(base), 0)
        assert rows.of(batch_for(other), 0) is not first
        assert dropped == [first]


def test_forgotten_rows_are_dropped_once() -> None:
    rows, dropped = states()
    rows.of(batch_for(RowText(tokens=[1])), 0)
    rows.forget(ints([0, 4]))
    rows.forget(ints([0]))
    assert len(dropped) == 1
    assert len(rows) == 0


def test_rows_are_told_apart_by_number() -> None:
    rows, _ = states()
    batch = batch_for(RowText(tokens=[1], row=3), RowText(tokens=[1], row=5))
    assert rows.of(batch, 0) is not rows.of(batch, 1)
    assert len(rows) == 2


def test_only_requests_that_allow_speculation_are_drafted_for() -> None:
    params = [SamplingParams(), SamplingParams(gamma=3), SamplingParams(gamma=0), SamplingParams(speculate=False)]
    batch = batch_for(*[RowText(tokens=[1], row=row, params=each) for row, each in enumerate(params)])
    assert [is_drafting(batch, index) for index in range(4)] == [True, True, False, False]
