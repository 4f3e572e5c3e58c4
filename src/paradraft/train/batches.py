"""From texts to what a network is trained on: joined texts, anchors, and the token each slot should say.

Legend: T tokens, A anchors, K slots, m tapped layers, d hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.core.arrays import IntArray
from paradraft.nets.networks.records import TrainingBatch
from paradraft.train.examples import Example


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Slots:
    """A joined batch and what belongs to its slots; slot k of an anchor drafts the token k + 1 behind it."""

    batch: TrainingBatch
    previous: Tensor  # [A, K] the token before each slot, taken from the text
    wanted: Tensor  # [A, K] the text's token, -1 behind its end
    last: Tensor | None  # [A, K, d] the target's last layer where it said that token, None if it was not kept


def make_slots(examples: Sequence[Example], anchors: Sequence[IntArray], num_slots: int, scale: Tensor | None) -> Slots:
    """Join texts and their anchors; taps are divided by scale [m * d]."""
    starts = torch.tensor([0, *[len(each.ids) for each in examples]]).cumsum(0)
    doc = torch.repeat_interleave(torch.arange(len(examples)), starts.diff())
    ids = torch.cat([each.ids for each in examples])
    taps = torch.cat([each.taps for each in examples])
    at = torch.cat([torch.from_numpy(own).long() + starts[i] for i, own in enumerate(anchors)])
    index = at[:, None] + torch.arange(1, num_slots + 1)
    is_inside = index < starts[1:][doc[at]][:, None]
    index = index.clamp(max=len(ids) - 1)
    kept = [each.last for each in examples if each.last is not None]
    last = torch.cat(kept)[index - 1] if len(kept) == len(examples) else None
    return Slots(
        batch=TrainingBatch(ids=ids, taps=taps if scale is None else taps / scale, anchors=at, doc=doc),
        previous=ids[index - 1],
        wanted=torch.where(is_inside, ids[index], -1),
        last=last,
    )


def move(slots: Slots, device: torch.device) -> Slots:
    """Return the same slots on a device."""
    batch = slots.batch
    return Slots(
        batch=TrainingBatch(
            ids=batch.ids.to(device),
            taps=batch.taps.to(device),
            anchors=batch.anchors.to(device),
            doc=batch.doc.to(device),
        ),
        previous=slots.previous.to(device),
        wanted=slots.wanted.to(device),
        last=None if slots.last is None else slots.last.to(device),
    )


def draft_labels(wanted: Tensor, places: Tensor) -> Tensor:
    """Return the draft ids of wanted tokens, -1 for none; places [V] holds each target id's draft id or -1."""
    return torch.where(wanted >= 0, places[wanted.clamp_min(0)], -1)
