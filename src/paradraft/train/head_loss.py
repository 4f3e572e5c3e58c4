"""The loss at the frozen head without keeping logits: gradients are made chunk by chunk while the loss is.

The logits of a step are its largest tensor by far. Here they are made into one buffer that stays in the processor's
cache, become the gradient in place, and are gone. What slots count is known before, or follows from their own block,
so that each chunk can be finished alone.
Legend: A anchors, K slots, n slots of a chunk, d hidden size, r rank of the correction, Vd draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.train.soft_labels import SoftLabels

_CHUNK = 320  # slots


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Head:
    """The frozen head [Vd, d], and the correction's features [A, K, r] and successors [Vd, r] where there is one."""

    weight: Tensor
    features: Tensor | None = None
    successors: Tensor | None = None
    counts: Tensor | None = None  # [Vd] how many tokens each row stands for in the sum, where only some are there


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeadLoss:
    """What came out at the head."""

    total: Tensor  # scalar: the weighted sum; its gradient flows into hidden and features, not into successors
    ce: Tensor  # [A, K] cross-entropy of each slot, 0 where there is nothing to learn
    is_right: Tensor  # [A, K] bool: the first choice is the target's token
    successors: Tensor | None  # [Vd, r] the gradient of the correction's matrix


def head_cross_entropy(
    hidden: Tensor,
    head: Head,
    labels: Tensor,
    weigh: Callable[[Tensor, Tensor], Tensor],
    soft: SoftLabels | None = None,
) -> HeadLoss:
    """Return the weighted cross-entropy of hidden [A, K, d] against labels [A, K], draft ids or -1 for none.

    soft takes its share of each slot that has a label. weigh turns cross-entropies and validity of some blocks, [a, K],
    into what their slots count. Under autocast the products take operands of its type; the softmax and all sums stay
    fp32.
    Raises ProtocolError if hidden and labels are not of the same slots.
    """
    _require_same_slots(hidden, labels)
    half = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
    with torch.autocast(hidden.device.type, enabled=False):
        return _in_chunks(hidden, head, _Wanted(labels, soft), weigh, half or hidden.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """What slots should say."""

    labels: Tensor  # [A, K]
    soft: SoftLabels | None

    def part(self, low: int, high: int) -> _Wanted:
        soft = self.soft
        cut = None if soft is None else SoftLabels(ids=soft.ids[low:high], shares=soft.shares[low:high])
        return _Wanted(self.labels[low:high], cut)

    def targets(self) -> tuple[Tensor, Tensor]:
        """Return draft ids and what each counts, [n, 1 + S]; the label comes first."""
        ids = self.labels.flatten().clamp_min(0)[:, None]
        if self.soft is None:
            return ids, torch.ones_like(ids, dtype=torch.float32)
        shares = torch.cat([self.soft.label_share.flatten()[:, None], self.soft.shares.flatten(0, 1)], dim=1)
        return torch.cat([ids, self.soft.ids.flatten(0, 1)], dim=1), shares


def _in_chunks(
    hidden: Tensor,
    head: Head,
    wanted: _Wanted,
    weigh: Callable[[Tensor, Tensor], Tensor],
    dtype: torch.dtype,
) -> HeadLoss:
    """Return as head_cross_entropy; dtype: of what is multiplied."""
    joined, weight = _operands(hidden, head, dtype)
    grad = torch.empty(joined.shape, dtype=hidden.dtype, device=hidden.device)
    weight_grad = None if head.successors is None else torch.zeros_like(head.successors)
    labels = wanted.labels
    ce, right, total = torch.empty_like(labels, dtype=hidden.dtype), torch.empty_like(labels, dtype=torch.bool), 0.0
    width = hidden.shape[-1]
    for low, high in _parts(labels):
        part = slice(low * labels.shape[1], high * labels.shape[1])
        logits = torch.mm(joined[part], weight.T).to(hidden.dtype)
        weights, ce[low:high], right[low:high] = _become_gradient(logits, wanted.part(low, high), head.counts, weigh)
        total += float((weights * ce[low:high]).sum())
        error = logits.to(dtype)
        grad[part] = torch.mm(error, weight)
        if weight_grad is not None:
            weight_grad += torch.mm(error.T, joined[part, width:])
    scalar = _with_gradient(hidden, grad[:, :width], total)
    if head.features is not None:
        scalar = scalar + _with_gradient(head.features, grad[:, width:], 0.0)
    return HeadLoss(total=scalar, ce=ce, is_right=right, successors=weight_grad)


def _operands(hidden: Tensor, head: Head, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return what each slot brings [n, d + r], and what the head holds against it [Vd, d + r]: one product for both."""
    slots, rows = [hidden.detach().flatten(0, 1)], [head.weight]
    if head.features is not None and head.successors is not None:
        slots.append(head.features.detach().flatten(0, 1))
        rows.append(head.successors.detach())
    return torch.cat(slots, dim=1).to(dtype), torch.cat(rows, dim=1).to(dtype)


def head_hits(hidden: Tensor, head: Head, labels: Tensor) -> Tensor:
    """Return whether the first choice of each slot is its label, [A, K] bool."""
    _require_same_slots(hidden, labels)
    hits = torch.empty_like(labels, dtype=torch.bool)
    for low, high in _parts(labels):
        logits = hidden[low:high] @ head.weight.T
        if head.features is not None and head.successors is not None:
            logits += head.features[low:high] @ head.successors.T
        hits[low:high] = logits.argmax(-1) == labels[low:high]
    return hits


def _require_same_slots(hidden: Tensor, labels: Tensor) -> None:
    if hidden.shape[:2] != labels.shape:
        raise ProtocolError(
            f"A network drafted {tuple(hidden.shape[:2])} anchors and slots, and there are labels for "
            f"{tuple(labels.shape)}.",
            remedy="Draft as many slots as there are labels for.",
        )


def _parts(labels: Tensor) -> list[tuple[int, int]]:
    blocks = max(_CHUNK // labels.shape[1], 1)
    return [(low, min(low + blocks, len(labels))) for low in range(0, len(labels), blocks)]


def _become_gradient(
    logits: Tensor, wanted: _Wanted, counts: Tensor | None, weigh: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn logits [n, Vd] of whole blocks into weight * (softmax - wanted); return weights, losses, hits [a, K]."""
    labels = wanted.labels
    at, shares = wanted.targets()
    valid = labels >= 0
    logits -= logits.amax(dim=1, keepdim=True)
    said = logits.gather(1, at)
    logits.exp_()
    if counts is not None:
        logits *= counts
    sums = logits.sum(dim=1, keepdim=True)
    losses = torch.where(valid, (sums.log()[:, 0] - (shares * said).sum(1)).view(labels.shape), 0.0)
    weights = weigh(losses, valid)
    each = weights.flatten()[:, None]
    logits *= each / sums
    logits.scatter_add_(1, at, -each * shares.to(logits.dtype))
    return weights, losses, (said[:, 0] >= 0.0).view(labels.shape) & valid


def _with_gradient(tensor: Tensor, grad: Tensor, value: float) -> Tensor:
    """Return a scalar of this value whose gradient at the tensor is grad."""
    product = (tensor * grad.view(tensor.shape)).sum()
    return product - product.detach() + value
