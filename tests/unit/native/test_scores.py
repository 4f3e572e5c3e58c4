from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.core.passed import DoneTicket
from paradraft.native.scores import ArrayScores


def scores_of(logits: np.ndarray) -> ArrayScores:
    hidden = {1: np.ones((len(logits), 4), dtype=np.float32)}
    starts, best = ints([0, len(logits)]), ints(logits.argmax(axis=1))
    return ArrayScores(starts=starts, fed_starts=starts, logits=logits, best=best, hidden=hidden, entropies={})


def test_the_lowest_id_wins_a_tie() -> None:
    logits = np.zeros((2, 1000), dtype=np.float32)
    logits[0, [700, 31, 999]] = 2.5
    scores = DoneTicket(scores=scores_of(logits)).wait()
    assert scores.argmax().tolist() == [31, 0]
    assert scores.argmax().dtype == np.int32
    ids, values = scores.top(0, 4)
    assert (ids.tolist(), values.tolist()) == ([31, 700, 999, 0], [2.5, 2.5, 2.5, 0.0])


def test_no_scored_position_has_no_best_id() -> None:
    assert scores_of(np.empty((0, 50), dtype=np.float32)).argmax().tolist() == []


def test_what_is_handed_out_cannot_be_written_to_and_the_pass_may_go_on() -> None:
    logits = np.zeros((1, 8), dtype=np.float32)
    scores = scores_of(logits)
    for values in (scores.row(0), scores.hidden(1)):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    logits[0, 3] = 1.0  # the executor's own memory stays its own


def test_taps_that_were_not_recorded_are_named() -> None:
    scores = scores_of(np.zeros((1, 8), dtype=np.float32))
    with pytest.raises(ProtocolError, match=r"hidden states of layer 0 were not recorded; recorded layers: \[1\]"):
        scores.hidden(0)
    with pytest.raises(ProtocolError, match="attention entropies of layer 1 were not recorded; recorded layers: none"):
        scores.attention_entropy(1)
