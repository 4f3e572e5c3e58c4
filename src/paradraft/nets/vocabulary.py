"""The part of a target's vocabulary that a drafter can name.

Legend: V the target's vocabulary, Vd the draft vocabulary. Draft ids follow the order of the target's ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.core.errors import ModelError


@dataclass(frozen=True, slots=True, eq=False)
class DraftVocabulary:
    """d2t [Vd] int64: target id minus draft id. t2d [V] bool: whether a target id can be drafted."""

    d2t: Tensor
    t2d: Tensor

    @staticmethod
    def full(size: int) -> DraftVocabulary:
        """Return the vocabulary that has all of the target's ids."""
        return DraftVocabulary(torch.zeros(size, dtype=torch.int64), torch.ones(size, dtype=torch.bool))

    @staticmethod
    def of(ids: Tensor, vocab_size: int) -> DraftVocabulary:
        """Return the vocabulary of these target ids, in any order."""
        kept = torch.unique(ids.to(torch.int64))
        if len(kept) and not 0 <= int(kept[0]) <= int(kept[-1]) < vocab_size:
            raise _bad(f"ids run from {int(kept[0])} to {int(kept[-1])}, and the target has {vocab_size} tokens")
        t2d = torch.zeros(vocab_size, dtype=torch.bool)
        t2d[kept] = True
        return DraftVocabulary(kept - torch.arange(len(kept)), t2d)

    @staticmethod
    def most_frequent(counts: Tensor, size: int, *, always: tuple[int, ...] = ()) -> DraftVocabulary:
        """Return the `size` ids that were counted most, counts [V], and among them those that must be there.

        The lower id wins between equals.
        """
        if not len(always) <= size <= len(counts):
            raise _bad(f"{size} ids were asked for of {len(counts)}, {len(always)} of them in any case")
        ranked = counts.to(torch.float64)
        ranked[list(always)] = torch.inf
        return DraftVocabulary.of(torch.argsort(ranked, descending=True, stable=True)[:size], len(counts))

    @property
    def size(self) -> int:
        """Return Vd."""
        return len(self.d2t)

    @property
    def ids(self) -> Tensor:
        """Return the target id of each draft id, [Vd] int64."""
        return self.d2t + torch.arange(self.size, device=self.d2t.device)

    @property
    def is_full(self) -> bool:
        """Whether every target id can be drafted."""
        return self.size == len(self.t2d)

    def draft_ids(self, tokens: Tensor) -> Tensor:
        """Return the draft ids of target ids, the same shape; -1 where a token cannot be drafted."""
        places = torch.cumsum(self.t2d, 0) - 1
        return torch.where(self.t2d[tokens], places[tokens], -1)

    def coverage(self, tokens: Tensor) -> float:
        """Return the share of tokens that can be drafted; a drafter cannot have a higher acceptance."""
        return float(self.t2d[tokens].to(torch.float64).mean()) if tokens.numel() else 0.0

    def check(self, *, vocab_size: int, size: int) -> None:
        """Raise ModelError unless the two tables say the same and have these sizes."""
        if self.d2t.shape != (size,) or self.t2d.shape != (vocab_size,):
            raise _bad(
                f"d2t has {tuple(self.d2t.shape)} and t2d {tuple(self.t2d.shape)}, not {(size,)}, {(vocab_size,)}"
            )
        if self.d2t.dtype != torch.int64 or self.t2d.dtype != torch.bool:
            raise _bad(f"d2t is {self.d2t.dtype} and t2d {self.t2d.dtype}, not int64 and bool")
        if not torch.equal(torch.nonzero(self.t2d).flatten(), self.ids):
            raise _bad("d2t and t2d do not name the same tokens")


def _bad(reason: str) -> ModelError:
    return ModelError(
        f"The draft vocabulary cannot be used: {reason}.", remedy="Export the drafter again, or fetch it again."
    )
