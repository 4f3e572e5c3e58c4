"""The heads that any network with slots of its own can carry: causal correction and confidence.

Legend: A anchors, K slots, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paradraft.nets.config import NetConfig
from paradraft.nets.networks.confidence import ConfidenceHead
from paradraft.nets.networks.correction import MarkovHead
from paradraft.nets.networks.net import Net
from paradraft.nets.networks.records import TrainingBatch, TrainingOutput
from paradraft.nets.vocabulary import DraftVocabulary


class CorrectedNet(Net):
    """A network whose configuration may ask for a Markov head and a confidence head."""

    def __init__(self, config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> None:
        super().__init__(config, embedding, head, vocabulary)
        self.markov_head = MarkovHead(config) if config.markov_rank else None
        self.confidence_head = ConfidenceHead(config) if config.has_confidence else None

    def finish(self, logits: Tensor, hidden: Tensor, previous: Tensor) -> TrainingOutput:
        """Add what the heads say that know the tokens before, target ids [..., K]; logits [..., K, Vd]."""
        embedded = None if self.markov_head is None else self.markov_head.embed(previous)
        if self.markov_head is not None and embedded is not None:
            logits = logits + self.markov_head.bias(embedded, hidden)
        confidence = None if self.confidence_head is None else self.confidence_head(hidden, embedded)
        return TrainingOutput(logits=logits, hidden=hidden, confidence=confidence)


def tokens_before(example: TrainingBatch, anchors: Tensor, depths: Tensor) -> Tensor:
    """Return the token before each slot; anchors and depths broadcast. Behind the end it is the last token."""
    places: Tensor = (anchors + depths).clamp(max=len(example.ids) - 1)
    return example.ids[places]


def slots_of(example: TrainingBatch, num_slots: int) -> tuple[Tensor, Tensor]:
    """Return anchors [A, 1] and depths [K] of all slots."""
    return example.anchors[:, None], torch.arange(num_slots, device=example.anchors.device)
