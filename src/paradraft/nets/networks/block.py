"""DFlash and DSpark: a block of masked tokens behind the anchor is filled in by one pass.

DFlash (arXiv 2602.06036) drafts K tokens from K + 1 inputs: the anchor and K masks, each of which predicts itself. In
DSpark (arXiv 2607.05147) every input predicts its successor, so K inputs draft K tokens, and a Markov head lets each
draft depend on the one before. The target's taps are joined to one context line per token. Block tokens see the lines
of all tokens before the anchor, and each other in both directions; lines see nothing, so their keys and values are
made once. Legend: T tokens, A anchors, B inputs of a block, K drafts, d hidden size, N key heads, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from paradraft.models.rope import Angles
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.branch_attention import attend_branches
from paradraft.nets.networks.corrected import CorrectedNet, slots_of, tokens_before
from paradraft.nets.networks.parts import INITIAL_SPREAD, Mlp, Norm, Projections, linear, positions_in, rotation_of
from paradraft.nets.networks.records import TrainingBatch, TrainingOutput
from paradraft.nets.vocabulary import DraftVocabulary


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where context lines and block tokens stand, and which lines each block sees."""

    lines: Angles  # of T
    blocks: Angles  # of A * B
    sees: Tensor  # [A, T]


class BlockLayer(nn.Module):
    """One layer; context lines enter its keys and values without its input norm."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.self_attn = Projections(config, config.hidden_size)
        self.post_attention_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(self, states: Tensor, lines: Tensor, places: _Places) -> Tensor:
        """Return new states [A, B, d] of blocks that see context lines [T, d]."""
        attention, shape = self.self_attn, states.shape[:2]
        inputs = self.input_layernorm(states).flatten(0, 1)
        text = (attention.keys(lines, places.lines).transpose(0, 1), attention.values(lines).transpose(0, 1))
        own = (
            _per_block(attention.keys(inputs, places.blocks), shape),
            _per_block(attention.values(inputs), shape),
        )
        queries = _per_block(attention.queries(inputs, places.blocks), shape)
        mixed = attend_branches(queries, text, own, sees=places.sees, own_sees=None)
        states = states + attention.o_proj(mixed)
        changed: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return changed


class BlockNet(CorrectedNet):
    """A DFlash or DSpark network."""

    def __init__(self, config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> None:
        super().__init__(config, embedding, head, vocabulary)
        size = config.hidden_size
        self.fc = linear(config.num_taps * size, size)
        self.hidden_norm = Norm(size, config.norm_eps)
        self.layers = nn.ModuleList(BlockLayer(config) for _ in range(config.num_layers))
        self.norm = Norm(size, config.norm_eps)
        self.mask_embedding = nn.Parameter(torch.randn(size) * INITIAL_SPREAD) if config.has_mask_embedding else None
        self.first_slot = config.num_inputs - config.block_size

    def draft_training(self, example: TrainingBatch) -> TrainingOutput:
        """Return what the blocks behind all anchors say, each as if it were alone."""
        hidden = self.hidden_training(example)
        logits = functional.linear(hidden, self.lm_head.weight)
        previous = tokens_before(example, *slots_of(example, self.config.block_size))
        return self.finish(logits, hidden, previous)

    def mask_vector(self) -> Tensor:
        """Return what stands for a token that is not drafted yet, [d]."""
        return (
            self.embed_tokens.weight[self.config.mask_token_id] if self.mask_embedding is None else self.mask_embedding
        )

    def hidden_training(self, example: TrainingBatch) -> Tensor:
        """Return the hidden states of the slots that draft, [A, K, d], behind the last norm."""
        lines = self.hidden_norm(self.fc(example.taps))
        anchors = self.embed_tokens.weight[example.ids[example.anchors]]
        masks = self.mask_vector().expand(len(anchors), self.config.num_inputs - 1, -1)
        states = torch.cat([anchors.unsqueeze(1), masks], dim=1)
        places = self._places(example, states.dtype)
        for layer in self.layers:
            states = layer(states, lines, places)
        normed: Tensor = self.norm(states[:, self.first_slot :])
        return normed

    def _places(self, example: TrainingBatch, dtype: torch.dtype) -> _Places:
        doc, anchors = example.doc, example.anchors
        rotation = rotation_of(self.config, dtype=dtype, device=doc.device)
        positions = positions_in(doc)
        blocks = positions[anchors, None] + torch.arange(self.config.num_inputs, device=doc.device)
        index = torch.arange(len(doc), device=doc.device)
        sees = (doc[anchors, None] == doc) & (index < anchors[:, None])
        return _Places(rotation.at(positions), rotation.at(blocks.flatten()), sees)


def _per_block(heads: Tensor, shape: torch.Size) -> Tensor:
    """View heads [A * B, H, D] as [A, B, H, D]."""
    return heads.view(*shape, *heads.shape[1:])
