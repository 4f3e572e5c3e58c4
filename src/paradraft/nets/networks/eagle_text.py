"""A training example as the EAGLE family reads it: entry j joins the tap of token j with token j + 1.

Legend: T tokens, L entries (T - 1), A anchors, d hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.nets.networks.eagle_body import EagleBody
from paradraft.nets.networks.parts import positions_in
from paradraft.nets.networks.records import TrainingBatch


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EntryText:
    """The entries of packed texts. The entry of an anchor, the last known token, is the one before its index."""

    embedded: Tensor  # [L, d]
    features: Tensor  # [L, d]
    index: Tensor  # [L] 0 .. L - 1
    positions: Tensor  # [L] in the text
    doc: Tensor  # [L]; -1 where the entry would join two texts

    @staticmethod
    def of(body: EagleBody, example: TrainingBatch) -> EntryText:
        """Return the entries of an example."""
        doc = torch.where(example.doc[1:] == example.doc[:-1], example.doc[1:], -1)
        return EntryText(
            embedded=body.embed(example.ids[1:]),
            features=body.features(example.taps[:-1]),
            index=torch.arange(len(doc), device=doc.device),
            positions=positions_in(example.doc)[:-1],
            doc=doc,
        )

    def entries_of(self, anchors: Tensor) -> Tensor:
        """Return the entries of anchors [A]; raise ProtocolError for one without a token before it in its text."""
        entries = anchors - 1
        if bool((entries < 0).any()) or bool((self.doc[entries] < 0).any()):
            raise ProtocolError(
                "An anchor is the first token of its text, so there is no tap to draft from.",
                remedy="Choose anchors from the second token of each text on.",
            )
        return entries

    def sees(self, entries: Tensor) -> Tensor:
        """Return which entries each of `entries` [A] sees: those of its text up to itself, bool [A, L].

        An entry between two texts sees itself and those of its kind; nobody else sees it.
        """
        return (self.index <= entries[:, None]) & (self.doc == self.doc[entries][:, None])


def anchors_of(doc: Tensor) -> Tensor:
    """Return every token with one before it in its text, [A]."""
    return torch.nonzero(doc[1:] == doc[:-1]).flatten() + 1
