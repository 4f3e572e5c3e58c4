"""Each loss is its formula, and each weighting counts slots as it says."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from paradraft.core.errors import ConfigError
from paradraft.train.objectives import Objective, measure, pace_weights, slot_weights

A, K, VD = 3, 2, 7


def logits(seed: int) -> Tensor:
    return torch.randn(A, K, VD, generator=torch.Generator().manual_seed(seed))


LABELS = torch.tensor([[1, 2], [3, -1], [6, 0]])
VALID = LABELS >= 0


def only(name: str, **others: float) -> Objective:
    return Objective(**{"ce": 0.0, "confidence": 0.0, "weighting": "equal", name: 1.0, **others})  # type: ignore[arg-type]


def laws() -> tuple[Tensor, Tensor]:
    return torch.softmax(logits(1).double(), -1), torch.softmax(logits(0).double(), -1)  # p, q


def total(objective: Objective, teacher: Tensor | None = None) -> float:
    return float(measure(logits(0), LABELS, logits(1) if teacher is None else teacher, None, objective).total)


def test_losses_are_their_formulas() -> None:
    p, q = laws()
    ce = -q.gather(-1, LABELS.clamp_min(0)[..., None])[..., 0].log()
    kl = -(p * q.log()).sum(-1)
    overlap = torch.minimum(p, q).sum(-1)
    share = torch.exp(-3.0 * overlap)
    expected = {
        "ce": ce,
        "kl": kl,
        "tv": 1.0 - overlap,
        "lk": share * kl + (1.0 - share) * (1.0 - overlap),
    }
    for name, each in expected.items():
        assert total(only(name)) == pytest.approx(float(each[VALID].sum()), rel=1e-4), name


def test_the_length_loss_is_the_share_of_the_block_that_is_not_expected_to_stand() -> None:
    p, q = laws()
    overlap = torch.minimum(p, q).sum(-1) * VALID
    expected = VALID.sum() - overlap.cumprod(1).sum()
    assert total(only("length")) == pytest.approx(float(expected), rel=1e-4)


def test_a_drafter_that_says_what_its_target_says_has_nothing_to_gain() -> None:
    same = logits(0)
    assert total(only("tv"), same) == pytest.approx(0.0, abs=1e-5)
    assert total(only("length"), same) == pytest.approx(0.0, abs=1e-5)


def test_decay_counts_later_slots_less() -> None:
    weights = slot_weights(VALID, Objective(decay=2.0))
    assert weights.tolist() == [[1.0, pytest.approx(math.exp(-0.5))], [1.0, 0.0], [1.0, pytest.approx(math.exp(-0.5))]]


def test_pace_counts_a_slot_by_the_chance_that_blocks_get_so_far() -> None:
    ce = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    weights = pace_weights(ce, torch.ones(3, 2, dtype=torch.bool))
    assert weights.mean().item() == pytest.approx(1.0)
    assert weights[0, 1] > weights[1, 1]
    chance = 0.5 * math.exp(-4.0) + 0.5
    assert (weights[1, 1] / weights[0, 1]).item() == pytest.approx(chance, rel=1e-5)
    assert (weights[0, 0] / weights[0, 1]).item() == pytest.approx(2.0)


def test_confidence_learns_the_chance_that_a_slot_stands() -> None:
    confidence = torch.zeros(A, K, requires_grad=True)
    losses = measure(logits(0), LABELS, None, confidence, Objective(ce=1.0, confidence=1.0, weighting="equal"))
    losses.total.backward()
    assert confidence.grad is not None
    expected = (0.5 - losses.is_right.float()) * VALID
    torch.testing.assert_close(confidence.grad, expected)


def test_slots_without_a_label_teach_nothing() -> None:
    given = logits(0).requires_grad_()
    measure(given, LABELS, logits(1), None, Objective(ce=1.0, tv=1.0, length=1.0)).total.backward()
    assert given.grad is not None
    assert float(given.grad[1, 1].abs().sum()) == 0.0
    assert float(given.grad[1, 0].abs().sum()) > 0.0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ce": -1.0}, "ce=-1.0"),
        ({"weighting": "odd"}, "weighting='odd'"),
        ({"decay": 0.0}, "decay=0"),
        ({"ce": 0.0}, "weight 0"),
    ],
)
def test_objectives_that_cannot_be_used_are_refused(values: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Objective(**values)  # type: ignore[arg-type]


def test_a_loss_that_needs_the_targets_law_says_so_when_it_is_missing() -> None:
    with pytest.raises(ConfigError, match="taps of its last layer"):
        measure(logits(0), LABELS, None, None, only("tv"))
