"""The recorder keeps the taps of fed tokens, row by row, whatever happens to the rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.train.recorder import Recorder


def step(recorder: Recorder, *rows: tuple[int, int, int], taps: FloatArray | None = None) -> None:
    """Feed rows of (seed, first position, count) in one pass; the tap of layer L at position p is 100 L + p."""
    places = np.concatenate([np.arange(first, first + count) for _, first, count in rows])
    starts = ints(np.cumsum([0, *[count for _, _, count in rows]]))
    batch = SimpleNamespace(
        sampling=[SimpleNamespace(seed=seed) for seed, _, _ in rows],
        context_len=ints([first for _, first, _ in rows]),
        pending_len=lambda index: rows[index][2],
    )
    scores = SimpleNamespace(
        fed_starts=starts,
        hidden=lambda layer: (100 * layer + places[:, None]).astype(np.float32) if taps is None else taps,
    )
    recorder.observe(batch, None, scores, None)  # type: ignore[arg-type]


def test_taps_of_several_rows_and_layers_come_back_by_seed() -> None:
    recorder = Recorder((1, 4))
    with recorder.recording():
        step(recorder, (7, 0, 3), (9, 0, 1))
        recorder.forget(ints([0]))
        step(recorder, (9, 1, 1), (7, 3, 1))
        seven, nine = recorder.take(7, 5), recorder.take(9, 3)
    assert seven is not None
    assert nine is not None
    assert seven.tolist() == [[100, 400], [101, 401], [102, 402], [103, 403], [0, 0]]
    assert nine.tolist() == [[100, 400], [101, 401], [0, 0]]
    assert seven.dtype == np.float16


def test_a_preempted_row_begins_anew() -> None:
    recorder = Recorder((0,))
    with recorder.recording():
        step(recorder, (1, 0, 2))
        step(recorder, (1, 0, 3))
        taps = recorder.take(1, 4)
    assert taps is not None
    assert taps[:, 0].tolist() == [0, 1, 2, 0]


def test_a_prefix_that_was_never_fed_is_noticed() -> None:
    recorder = Recorder((0,))
    with recorder.recording():
        step(recorder, (1, 4, 2))
        with pytest.raises(ProtocolError, match="prefix caching off"):
            recorder.take(1, 7)
        step(recorder, (2, 0, 2))
        with pytest.raises(ProtocolError, match="Taps of 2 tokens were recorded, and 3 were fed"):
            recorder.take(2, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_taps_that_are_not_finite_are_not_handed_over(bad: float) -> None:
    recorder = Recorder((0,))
    with recorder.recording():
        step(recorder, (1, 0, 1), (2, 0, 1), taps=np.array([[bad], [1.0]], np.float32))
        assert recorder.take(1, 2) is None
        assert recorder.take(2, 2) is not None


def test_nothing_is_kept_outside_of_a_recording() -> None:
    recorder = Recorder((0,))
    step(recorder, (1, 0, 1))
    with recorder.recording():
        step(recorder, (2, 0, 1))
    with pytest.raises(ProtocolError):
        recorder.take(2, 2)


def test_it_drafts_nothing_and_says_what_it_taps() -> None:
    recorder = Recorder((3, 5))
    assert recorder.needs.hidden_layers == (3, 5)
    assert len(recorder.propose(SimpleNamespace(num_rows=2), None).tokens) == 0  # type: ignore[arg-type]
