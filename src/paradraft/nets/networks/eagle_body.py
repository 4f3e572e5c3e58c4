"""The weights of the EAGLE family and what is computed with them entry by entry.

Legend: m taps, d hidden size, V and Vd vocabulary of target and drafter.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from paradraft.models.rope import Angles
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.corrected import CorrectedNet
from paradraft.nets.networks.eagle_layer import EagleLayer
from paradraft.nets.networks.parts import INITIAL_SPREAD, Norm, linear, rotation_of
from paradraft.nets.vocabulary import DraftVocabulary


class EagleBody(CorrectedNet):
    """Projection of the taps, layers and last norm; names in the state are those of the public checkpoints."""

    mask_hidden: Tensor

    def __init__(self, config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> None:
        super().__init__(config, embedding, head, vocabulary)
        size, taps = config.hidden_size, config.num_taps * config.hidden_size
        self.fc = linear(taps, size)
        self.layers = nn.ModuleList(EagleLayer(config, is_first=number == 0) for number in range(config.num_layers))
        self.norm = Norm(size, config.norm_eps)
        if config.method == "peagle":
            self.mask_hidden = nn.Parameter(torch.randn(1, 1, taps) * INITIAL_SPREAD)

    @property
    def decoder_layers(self) -> Sequence[EagleLayer]:
        """Return the layers in order."""
        return [layer for layer in self.layers if isinstance(layer, EagleLayer)]

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of target ids, [..., d]."""
        return functional.embedding(tokens, self.embed_tokens.weight)

    def features(self, taps: Tensor) -> Tensor:
        """Fuse taps [..., m * d] into features [..., d]."""
        fused: Tensor = self.fc(taps)
        return fused

    def masked(self, count: int) -> tuple[Tensor, Tensor]:
        """Return embeddings and features [count, d] that stand for tokens not known yet."""
        token = self.embed_tokens.weight[self.config.mask_token_id]
        feature = self.features(self.mask_hidden.view(1, -1))
        return token.expand(count, -1), feature.expand(count, -1)

    def head_input(self, states: Tensor) -> Tensor:
        """Return what the head reads of the last layer's outputs, [..., d]."""
        normed: Tensor = self.norm(states)
        return normed

    def logits(self, head_input: Tensor) -> Tensor:
        """Return logits [..., Vd]."""
        return functional.linear(head_input, self.lm_head.weight)

    def angles(self, positions: Tensor) -> Angles:
        """Return the rotation of positions [T]."""
        weight = self.fc.weight
        return rotation_of(self.config, dtype=weight.dtype, device=weight.device).at(positions)
