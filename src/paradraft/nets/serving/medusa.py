"""Medusa behind the drafter's port. It has no cache: what it reads comes with the anchors.

Legend: R rows, K heads, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.models.linear import choose_kernels
from paradraft.nets.networks.medusa import MedusaNet, ResidualBlocks
from paradraft.nets.serving.eagle_layer import Placed
from paradraft.nets.serving.heads import MarginalHeads
from paradraft.nets.serving.place import ServingPlace, as_tensor
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


class MedusaNetwork:
    """Implements drafters.neural.ports.Network over the weights of a Medusa net, which it copies."""

    shift = 1

    def __init__(self, net: MedusaNet, place: ServingPlace) -> None:
        config = net.config
        self.name = config.method
        self.tap_layers = config.tap_layers
        self.tap_size = config.num_taps * config.hidden_size
        self.block_size = config.block_size
        self.max_positions = config.max_positions
        self._place = place
        placed = Placed(place, choose_kernels(place.dtype, place.device))
        self._norm = placed.rms_norm(net.norm.weight, config.norm_eps)
        heads = [head for head in net.blocks if isinstance(head, ResidualBlocks)]
        depths = range(config.num_res_blocks)
        self._blocks = [
            (
                placed.weight(*(head.linears[depth].weight for head in heads)).view(len(heads), config.hidden_size, -1),
                placed.weight(*(head.linears[depth].bias for head in heads)).view(len(heads), 1, -1),
            )
            for depth in depths
        ]
        self._head = placed.table(net.lm_head.weight)
        self._heads = MarginalHeads(net.vocabulary, net.markov_head, net.confidence_head, device=place.device)
        weights = sum(each.numel() for each in net.parameters()) + net.lm_head.weight.numel()
        self.extra_bytes = weights * place.dtype.itemsize + self._heads.num_bytes
        self._is_open = True

    def append(self, feed: ContextFeed) -> None:
        """Keep nothing."""

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what all heads say of the state before each anchor."""
        if not self._is_open:
            raise ProtocolError("The drafting network is closed.", remedy="Build another one.")
        with torch.inference_mode():
            hidden = self._slots(as_tensor(feed.taps, self._place.device).to(self._place.dtype))
            logits = self._head(hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)
            return self._heads.marginals(logits, hidden, feed)

    def close(self) -> None:
        """Free the weights."""
        self._is_open = False
        self._blocks = []

    def _slots(self, taps: Tensor) -> Tensor:
        """Return the head's inputs [R, K, d] of taps [R, d]; all heads of one depth are one batched product."""
        states = self._norm(taps).expand(self.block_size, -1, -1)
        for weight, bias in self._blocks:
            states = states + functional.silu(torch.baddbmm(bias, states, weight.transpose(1, 2)))
        return states.transpose(0, 1).contiguous()
