"""Medusa behind the drafter's port. It has no cache: what it reads comes with the anchors.

Legend: R rows, K heads, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.models.linear import Linear
from paradraft.models.norms import RmsNorm
from paradraft.nets.networks.medusa import MedusaNet, ResidualBlocks
from paradraft.nets.serving.network import ServingNetwork
from paradraft.nets.serving.place import ServingPlace, as_tensor
from paradraft.nets.serving.placed import Placed
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MedusaWeights:
    """A whole network."""

    norm: RmsNorm
    blocks: tuple[tuple[Tensor, Tensor], ...]  # by depth: weights [K, d, d] and biases [K, 1, d] of all heads
    head: Linear


class MedusaNetwork(ServingNetwork[MedusaWeights]):
    """Implements drafters.neural.ports.Network over the weights of a Medusa net, which it copies."""

    def __init__(self, net: MedusaNet, place: ServingPlace) -> None:
        super().__init__(net, _read_medusa(net, place), place, shift=1)

    def append(self, feed: ContextFeed) -> None:
        """Keep nothing."""

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what all heads say of the state before each anchor."""
        weights = self.opened()
        with torch.inference_mode():
            hidden = self._slots(weights, as_tensor(feed.taps, self._place.device).to(self._place.dtype))
            logits = weights.head(hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)
            return self.heads.marginals(logits, hidden, feed)

    def _slots(self, weights: MedusaWeights, taps: Tensor) -> Tensor:
        """Return the head's inputs [R, K, d] of taps [R, d]; all heads of one depth are one batched product."""
        states = weights.norm(taps).expand(self.block_size, -1, -1)
        for weight, bias in weights.blocks:
            states = states + functional.silu(torch.baddbmm(bias, states, weight.transpose(1, 2)))
        return states.transpose(0, 1).contiguous()


def _read_medusa(net: MedusaNet, place: ServingPlace) -> MedusaWeights:
    placed, size = Placed(place), net.config.hidden_size
    heads = [head for head in net.blocks if isinstance(head, ResidualBlocks)]
    layers = [[head.linears[depth] for head in heads] for depth in range(net.config.num_res_blocks)]
    return MedusaWeights(
        norm=placed.rms_norm(net.norm.weight, net.config.norm_eps),
        blocks=tuple(
            (
                placed.weight(*(layer.weight for layer in depth)).view(len(heads), size, -1),
                placed.weight(*(layer.bias for layer in depth)).view(len(heads), 1, -1),
            )
            for depth in layers
        ),
        head=placed.table(net.lm_head.weight),
    )
