"""Gradients of picked rows are those of an embedding."""

import pytest
import torch

from paradraft.train.row_gradients import pick_rows


def gradient_of(pick, weight: torch.Tensor, ids: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
    leaf = weight.clone().requires_grad_()
    leaf.grad = None if before is None else before.clone()
    pick(leaf, ids).square().sum().backward()
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("has_gradient", [False, True])
def test_repeated_ids_add_up_and_earlier_gradients_stay(has_gradient: bool) -> None:
    weight = torch.randn(7, 3, dtype=torch.float64)
    ids = torch.tensor([[1, 1, 6], [2, 1, 0]])
    before = torch.randn(7, 3, dtype=torch.float64) if has_gradient else None
    mine = gradient_of(pick_rows, weight, ids, before)
    theirs = gradient_of(lambda leaf, at: torch.nn.functional.embedding(at, leaf), weight, ids, before)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    assert (mine[5] == (0.0 if before is None else before[5])).all()


def test_a_frozen_matrix_gets_no_gradient() -> None:
    weight = torch.randn(7, 3)
    assert not pick_rows(weight, torch.tensor([1, 2])).requires_grad
    assert weight.grad is None


def test_under_autocast_the_gradient_keeps_the_type_of_the_weight() -> None:
    leaf = torch.randn(7, 4).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        (pick_rows(leaf, torch.tensor([1, 2])) @ torch.randn(4, 2)).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.dtype == torch.float32
