"""What training gives a network and gets from it.

Legend: T tokens of packed texts, m tapped layers, d hidden size, A anchors, K drafts per anchor, Vd draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainingBatch:
    """Texts, packed one after the other, and the places drafts start from.

    An anchor is the index of the last known token; its slot k drafts token anchor + k + 1. Positions count from the
    first token of each document.
    """

    ids: Tensor  # [T] int64
    taps: Tensor  # [T, m * d]
    anchors: Tensor  # [A] int64 into ids
    doc: Tensor  # [T] int64, the same number for all tokens of one text, texts in one piece


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainingOutput:
    """What the network says at every slot, the tokens before it taken from the text.

    Slots behind the end of an anchor's text are computed too, and mean nothing.
    """

    logits: Tensor  # [A, K, Vd], causal correction included
    hidden: Tensor  # [A, K, d] after the last norm
    confidence: Tensor | None  # [A, K] raw logits of 'stands if all before it stand'
