"""Causal correction: what a token says about its successor, added to the logits of a one-pass drafter.

A parallel drafter makes its drafts without knowing each other: slot k has one law whatever came before it. This head
adds a bias W2 (g * W1[x]) for the token x before, g = 1 (vanilla) or a gate read from x and the slot's hidden state
(gated), as in DSpark (arXiv 2607.05147). The walk along a path is then that of a Markov chain. Any parallel network
can carry it. Legend: V and Vd target and draft vocabulary, r rank, d hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paradraft.nets.config import NetConfig
from paradraft.nets.networks.parts import INITIAL_SPREAD


class MarkovHead(nn.Module):
    """Fresh, it adds nothing: W2 begins at zero."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        rank = config.markov_rank
        self.markov_w1 = nn.Embedding(config.vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, config.draft_vocab_size, bias=False)
        self.gate_proj = nn.Linear(config.hidden_size + rank, rank) if config.markov_kind == "gated" else None
        nn.init.normal_(self.markov_w1.weight, std=INITIAL_SPREAD)
        nn.init.zeros_(self.markov_w2.weight)
        if self.gate_proj is not None:
            nn.init.zeros_(self.gate_proj.weight)
            nn.init.zeros_(self.gate_proj.bias)

    def embed(self, previous: Tensor) -> Tensor:
        """Return W1 of target ids [...], [..., r]."""
        embedded: Tensor = self.markov_w1(previous)
        return embedded

    def bias(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Return the bias [..., Vd] of embedded tokens before [..., r], at slots with hidden states [..., d]."""
        bias: Tensor = self.markov_w2(self.gated(embedded, hidden))
        return bias

    def gated(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Return the embeddings [..., r] as far as the slots' hidden states [..., d] let them through."""
        if self.gate_proj is None:
            return embedded
        return torch.sigmoid(self.gate_proj(torch.cat([hidden, embedded], dim=-1))) * embedded
