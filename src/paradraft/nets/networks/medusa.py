"""Medusa (arXiv 2401.10774): one small head per slot on the target's last hidden state. No attention and no cache.

Legend: A anchors, K heads, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from paradraft.core.errors import ModelError, ProtocolError
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.corrected import CorrectedNet, slots_of, tokens_before
from paradraft.nets.networks.net import FrozenTable
from paradraft.nets.networks.records import TrainingBatch, TrainingOutput
from paradraft.nets.vocabulary import DraftVocabulary

_NORM = "norm.weight"


class ResidualBlocks(nn.Module):
    """x + silu(W x + b), some times over. W and b begin at 0, so a fresh head says what the target's own head says."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(count))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    @property
    def linears(self) -> list[nn.Linear]:
        """Return the layers in order."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def forward(self, states: Tensor) -> Tensor:
        """Return states of the same shape [..., d]."""
        for layer in self.layers:
            states = states + functional.silu(layer(states))
        return states


class MedusaNet(CorrectedNet):
    """Head k says which token comes k + 1 behind the anchor, from the state before the anchor.

    That state is the output of the target's last layer under the target's final norm, whose weight has to be given
    with `use_final_norm` or with the drafter's own weights. All heads share the target's head.
    """

    def __init__(self, config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> None:
        super().__init__(config, embedding, head, vocabulary)
        if config.num_taps != 1:
            raise ModelError(
                f"Medusa heads read one layer, the target's last, and tap_layers={list(config.tap_layers)}.",
                remedy="Write the number of the target's last layer there.",
            )
        self.norm = FrozenTable(torch.ones(config.hidden_size), is_own=True)
        self.blocks = nn.ModuleList(
            ResidualBlocks(config.hidden_size, config.num_res_blocks) for _ in range(config.block_size)
        )

    def use_final_norm(self, weight: Tensor) -> None:
        """Take over the weight [d] of the target's final norm; raise ModelError if it has another shape."""
        if weight.shape != self.norm.weight.shape:
            raise ModelError(
                f"The target's final norm has shape {tuple(weight.shape)}, the drafter needs "
                f"{tuple(self.norm.weight.shape)}.",
                remedy="Use the drafter with the target it was made for.",
            )
        self.norm.weight.copy_(weight)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over these weights. Public checkpoints leave the final norm out; it stays as it is then."""
        super().restore(state if _NORM in state else {**state, _NORM: self.norm.weight})

    def slots(self, taps: Tensor) -> Tensor:
        """Return the head's inputs of the configuration's slots, [..., K, d], for taps [..., d] before the anchors."""
        size = (self.config.hidden_size,)
        states = functional.rms_norm(taps, size, self.norm.weight.to(taps.dtype), self.config.norm_eps)
        return torch.stack([block(states) for block in self.blocks[: self.config.block_size]], dim=-2)

    def logits(self, slots: Tensor) -> Tensor:
        """Return logits [..., Vd]."""
        return functional.linear(slots, self.lm_head.weight)

    def draft_training(self, example: TrainingBatch) -> TrainingOutput:
        """Return what is drafted at each anchor; raise ProtocolError for one without a token before it in its text."""
        hidden = self.hidden_training(example)
        before = tokens_before(example, *slots_of(example, self.config.block_size))
        return self.finish(self.logits(hidden), hidden, before)

    def hidden_training(self, example: TrainingBatch) -> Tensor:
        """Return what the head reads at each anchor's slots, [A, K, d]; raises what draft_training raises."""
        places = example.anchors - 1
        if bool((places < 0).any()) or bool((example.doc[places] != example.doc[example.anchors]).any()):
            raise ProtocolError(
                "An anchor is the first token of its text, so there is no tap to draft from.",
                remedy="Choose anchors from the second token of each text on.",
            )
        return self.slots(example.taps[places])
