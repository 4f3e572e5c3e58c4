"""Some rows of the head in place of all of them: the tokens a step asks for, and a draw of the others.

The sum over the vocabulary is estimated without bias: rows that are asked for count once, each drawn row counts for as
many of the others as there are per draw. It is what makes a step cheap, as the head is a third of its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from paradraft.nets.networks.net import Net
from paradraft.train.head_loss import Head
from paradraft.train.soft_labels import SoftLabels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SampledHead:
    """Rows of the head, [M, d], ascending by draft id."""

    ids: Tensor  # [M] draft ids
    weight: Tensor  # [M, d]
    counts: Tensor  # [M] how many tokens a row stands for
    places: Tensor  # [Vd] row of each draft id, -1 for none

    def labels(self, labels: Tensor) -> Tensor:
        """Return rows in place of draft ids, -1 stays."""
        return torch.where(labels >= 0, self.places[labels.clamp_min(0)], -1)

    def soft_labels(self, soft: SoftLabels) -> SoftLabels:
        """Return rows in place of draft ids, all of which must have been asked for."""
        return replace(soft, ids=self.places[soft.ids])

    def head(self, features: Tensor | None, successors: Tensor | None) -> Head:
        """Return the head of these rows; features and successors [Vd, r] as in a whole one."""
        picked = None if successors is None else successors.detach()[self.ids]
        return Head(weight=self.weight, features=features, successors=picked, counts=self.counts)


def sample_head(net: Net, labels: Sequence[Tensor], size: int, chance: np.random.Generator) -> SampledHead:
    """Return the rows that labels ask for, draft ids or -1, and others drawn alike up to `size` rows in all."""
    weight = net.lm_head.weight
    is_asked = torch.zeros(len(weight), dtype=torch.bool)
    for own in labels:
        is_asked[own[own >= 0].cpu()] = True
    others = torch.nonzero(~is_asked).flatten()
    num_drawn = min(max(size - int(is_asked.sum()), min(len(others), 1)), len(others))
    drawn = (
        others[torch.from_numpy(np.sort(chance.choice(len(others), num_drawn, replace=False)))] if num_drawn else others
    )
    counts = torch.zeros(len(weight))
    counts[is_asked] = 1.0
    counts[drawn] = len(others) / max(num_drawn, 1)
    ids = torch.nonzero(counts).flatten()
    places = torch.full((len(weight),), -1)
    places[ids] = torch.arange(len(ids))
    device = weight.device
    return SampledHead(
        ids=ids.to(device), weight=weight[ids.to(device)], counts=counts[ids].to(device), places=places.to(device)
    )
