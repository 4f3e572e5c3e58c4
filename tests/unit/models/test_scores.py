from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.core.passed import DoneTicket
from paradraft.core.records import Proposal
from paradraft.models.layout import LayoutNeeds, lay_out
from paradraft.models.scores import TensorScores
from support.passes import Row, batch_of


def scores_of(logits: Tensor, hidden: dict[int, Tensor] | None = None) -> TensorScores:
    needs = LayoutNeeds(windows=(None,), num_groups=1, dtype=torch.float32, device=torch.device("cpu"))
    row = Row(tokens=range(len(logits)), pages=range(8), num_scored=len(logits))
    layout = lay_out(batch_of([row], 4), Proposal.empty(1), needs)
    return TensorScores(layout, logits, hidden=hidden or {}, entropies={})


def test_the_lowest_id_wins_a_tie():
    logits = torch.zeros(2, 1000)
    logits[0, [700, 31, 999]] = 2.5
    scores = scores_of(logits)
    assert scores.argmax().tolist() == [31, 0]
    assert scores.argmax().dtype == np.int32


def test_top_is_ordered_by_logit_then_id_also_where_a_tie_is_cut():
    logits = torch.zeros(1, 100)
    logits[0, [90, 7]] = 3.0
    logits[0, [50, 20, 60]] = 1.0
    ids, values = scores_of(logits).top(0, 4)
    assert ids.tolist() == [7, 90, 20, 50]
    assert values.tolist() == [3.0, 3.0, 1.0, 1.0]


@pytest.mark.parametrize("count", [0, 1, 17, 100, 101])
def test_top_is_the_head_of_a_full_sort(count: int):
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    ids, values = scores_of(logits).top(1, count)
    row = logits[1].numpy()
    expected = np.lexsort((np.arange(100), -row))[:count]
    assert ids.tolist() == expected.tolist()
    assert values.tolist() == row[expected].tolist()


def test_rows_and_taps_are_read_only():
    scores = scores_of(torch.randn(2, 10), {3: torch.randn(2, 4)})
    for array in (scores.row(1), scores.hidden(3)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_a_tap_nobody_asked_for_is_named_with_those_recorded():
    scores = scores_of(torch.randn(1, 10), {3: torch.randn(1, 4)})
    with pytest.raises(ProtocolError, match=r"layer 2 .*\[3\]"):
        scores.hidden(2)
    with pytest.raises(ProtocolError, match="none"):
        scores.attention_entropy(3)


def test_half_precision_taps_arrive_as_fp32():
    tap = torch.randn(1, 4).bfloat16()
    assert scores_of(torch.randn(1, 10), {0: tap}).hidden(0).tolist() == tap.float().tolist()


def test_a_ticket_returns_its_scores():
    scores = scores_of(torch.randn(1, 10))
    assert DoneTicket(scores=scores).wait() is scores
