"""The loss of a network on a batch, by the cheapest way that gives it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paradraft.nets.networks.corrected import CorrectedNet
from paradraft.nets.networks.net import Net
from paradraft.train.batches import Slots
from paradraft.train.head_loss import Head, head_cross_entropy, head_hits
from paradraft.train.objectives import Losses, Objective, measure, pace_weights, slot_weights
from paradraft.train.row_gradients import pick_rows
from paradraft.train.sampled_head import SampledHead
from paradraft.train.soft_labels import SoftLabels
from paradraft.train.teacher import Teacher

_CHUNK = 64  # anchors whose logits are held at once


def batch_loss(
    net: Net,
    slots: Slots,
    labels: Tensor,
    objective: Objective,
    teacher: Teacher | None,
    *,
    share: float = 1.0,
    sampled: SampledHead | None = None,
    soft: SoftLabels | None = None,
) -> Losses:
    """Return the summed losses of a batch times share; labels [A, K]: draft ids, -1 where there is nothing to learn.

    Backward through `total` gives the gradients of everything but the correction's matrix, which is added here. The
    returned cross-entropy is not multiplied. sampled: rows of the head to use instead of all, and soft: labels beside
    the text's, both for cross-entropy alone.
    """
    hidden = net.hidden_training(slots.batch).float()
    if objective.needs_teacher:
        return _by_parts(net, hidden, slots, labels, objective, teacher, share)
    head = _head(net, hidden, slots)
    if sampled is not None:
        head, labels = sampled.head(head.features, head.successors), sampled.labels(labels)
        soft = soft and sampled.soft_labels(soft)
    result = head_cross_entropy(hidden, head, labels, _weigher(objective, share), soft)
    _add_successors(net, result.successors, None if sampled is None else sampled.ids)
    total = result.total
    valid = labels >= 0
    weights = slot_weights(valid, objective)
    if objective.confidence:
        confidence = _confidence(net, hidden, slots)
        if confidence is not None:
            doubt = torch.nn.functional.binary_cross_entropy_with_logits(
                confidence, result.is_right.float(), reduction="none"
            )
            total = total + share * objective.confidence * (weights * doubt).sum()
    return Losses(total=total, ce=(weights * result.ce).sum(), is_right=result.is_right, num_slots=int(valid.sum()))


@torch.no_grad()
def batch_hits(net: Net, slots: Slots, labels: Tensor) -> Tensor:
    """Return whether the first choice of each slot is its label, [A, K], the tokens before it taken from the text."""
    hidden = net.hidden_training(slots.batch).float()
    return head_hits(hidden, _head(net, hidden, slots), labels)


def _weigher(objective: Objective, share: float) -> Callable[[Tensor, Tensor], Tensor]:
    if objective.weighting == "pace":
        return lambda ce, valid: share * objective.ce * pace_weights(ce, valid)
    return lambda _, valid: share * objective.ce * slot_weights(valid, objective)


def _head(net: Net, hidden: Tensor, slots: Slots) -> Head:
    if not isinstance(net, CorrectedNet) or net.markov_head is None:
        return Head(weight=net.lm_head.weight)
    markov = net.markov_head
    features = markov.gated(pick_rows(markov.markov_w1.weight, slots.previous), hidden)
    return Head(weight=net.lm_head.weight, features=features.float(), successors=markov.markov_w2.weight)


def _confidence(net: Net, hidden: Tensor, slots: Slots) -> Tensor | None:
    """Return raw logits [A, K]; the backbone learns nothing from them."""
    if not isinstance(net, CorrectedNet) or net.confidence_head is None:
        return None
    embedded = None if net.markov_head is None else net.markov_head.embed(slots.previous).detach()
    logits: Tensor = net.confidence_head(hidden.detach(), embedded)
    return logits


def _add_successors(net: Net, grad: Tensor | None, ids: Tensor | None) -> None:
    if grad is None or not isinstance(net, CorrectedNet) or net.markov_head is None:
        return
    weight = net.markov_head.markov_w2.weight
    if not weight.requires_grad:
        return
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    if ids is None:
        weight.grad += grad
    else:
        weight.grad.index_add_(0, ids, grad)


def _by_parts(
    net: Net,
    hidden: Tensor,
    slots: Slots,
    labels: Tensor,
    objective: Objective,
    teacher: Teacher | None,
    share: float,
) -> Losses:
    """Compute any loss some anchors at a time, so that few logits are held."""
    confidence = _confidence(net, hidden, slots)
    head = _head(net, hidden, slots)
    leaves = [hidden, *[part for part in (head.features, confidence) if part is not None]]
    cut = [leaf.detach().requires_grad_() for leaf in leaves]
    features = cut[1] if head.features is not None else None
    doubt = cut[-1] if confidence is not None else None
    total, ce = 0.0, hidden.new_zeros(())
    right: list[Tensor] = []
    for low in range(0, len(labels), _CHUNK):
        part = slice(low, low + _CHUNK)
        logits = cut[0][part] @ head.weight.T
        if features is not None and head.successors is not None:
            logits = logits + features[part] @ head.successors.T
        law = None if teacher is None or slots.last is None else teacher.logits(slots.last[part], head.weight)
        losses = measure(logits, labels[part], law, None if doubt is None else doubt[part], objective)
        (share * losses.total).backward()  # type: ignore[no-untyped-call]
        total += share * float(losses.total.detach())
        ce, right = ce + losses.ce, [*right, losses.is_right]
    surrogate = hidden.new_zeros(())
    for leaf, cut_leaf in zip(leaves, cut, strict=True):
        surrogate = surrogate + (leaf * cut_leaf.grad).sum() if cut_leaf.grad is not None else surrogate
    return Losses(
        total=surrogate - surrogate.detach() + total,
        ce=ce,
        is_right=torch.cat(right),
        num_slots=int((labels >= 0).sum()),
    )
