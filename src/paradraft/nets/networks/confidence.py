"""How sure a network is that a draft stands if all before it stand (DSpark: arXiv 2607.05147, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paradraft.nets.config import NetConfig


class ConfidenceHead(nn.Module):
    """One linear line over the slot's hidden state and, with a Markov head, the embedding of the token before."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.num_markov = config.markov_rank if config.confidence_reads_markov else 0
        self.proj = nn.Linear(config.hidden_size + self.num_markov, 1)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, hidden: Tensor, previous: Tensor | None) -> Tensor:
        """Return raw logits [...] of hidden [..., d] and embeddings of the tokens before [..., r]."""
        reads = self.num_markov and previous is not None
        inputs = torch.cat([hidden, previous], dim=-1) if reads and previous is not None else hidden
        logits: Tensor = self.proj(inputs).squeeze(-1)
        return logits

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights for the hidden state [d] and for the token before [r or 0], and the bias."""
        weight = self.proj.weight[0]
        cut = len(weight) - self.num_markov
        return weight[:cut], weight[cut:], self.proj.bias[0]
