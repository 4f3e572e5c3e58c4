"""Rows of a large embedding whose gradient is added where they lie, not through a matrix of zeros for every batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pick_rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Return rows [..., r] of weight [V, r]; backward adds to weight.grad at these rows and touches no other.

    An embedding's own gradient fills a matrix of V rows for each use of it (49,152 of them for a few hundred tokens:
    an eighth of a step of the built-in model).
    """
    if not (weight.requires_grad and torch.is_grad_enabled()):
        return weight[ids]
    picked: Tensor = _PickedRows.apply(weight, ids)  # type: ignore[no-untyped-call]
    return picked


class _PickedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor) -> Tensor:
        ctx.weight = weight
        ctx.save_for_backward(ids)
        return weight[ids]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        weight: Tensor = ctx.weight
        (ids,) = ctx.saved_tensors
        with torch.no_grad():
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            weight.grad.index_add_(0, ids.flatten(), grad.flatten(0, -2).to(weight.dtype))
        return None, None
