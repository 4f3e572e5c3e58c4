"""Soft labels: beside the text's token the few that the target finds likeliest, by its own law.

A text says one token at each place, a law says which others would have done almost as well. So a network that sees the
same texts many times learns more from each, and less by heart (distillation: Hinton et al., arXiv 1503.02531). The few
likeliest carry nearly all of it, and unlike whole laws they go with a head of which a step uses some rows only.
Legend: A anchors, K slots, S soft labels of a slot, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.train.batches import Slots
from paradraft.train.teacher import Teacher

NUM_LIKELIEST = 8


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SoftLabels:
    """What each slot should say besides its label, and how much of the slot that is; the label has the rest."""

    ids: Tensor  # [A, K, S] draft ids, or rows of a sampled head
    shares: Tensor  # [A, K, S], whose sum is the objective's share

    @property
    def label_share(self) -> Tensor:
        """Return what is left for the label, [A, K]."""
        return 1.0 - self.shares.sum(-1)


@torch.no_grad()
def soft_labels(teacher: Teacher, head: Tensor, slots: Slots, share: float, dtype: torch.dtype) -> SoftLabels:
    """Return the target's likeliest tokens of the draft vocabulary at every slot, with `share` of the slot in all.

    head [Vd, d]: rows of the target's. dtype: of what is multiplied. Slots of several anchors stand at one place of the
    text, which is looked at once. The slots must have the target's last layer.
    """
    assert slots.last is not None
    num_slots = slots.last.shape[1]
    places = slots.batch.anchors[:, None] + torch.arange(num_slots, device=slots.batch.anchors.device)
    found, which = torch.unique(places, return_inverse=True)
    first = torch.empty_like(found).scatter_(0, which.flatten(), torch.arange(which.numel(), device=found.device))
    logits = teacher.logits(slots.last.flatten(0, 1)[first], head, dtype=dtype).float()
    best = logits.topk(min(NUM_LIKELIEST, len(head)), dim=-1)
    shares = torch.softmax(best.values, dim=-1) * share
    return SoftLabels(ids=best.indices[which], shares=shares[which])
