"""What serving networks share: where rows lie in the cache, and how logits become marginals.

Legend: R rows, B inputs per row, K drafts, C candidates, Vd draft vocabulary, d hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.models.kv_store import Slots
from paradraft.models.layout import RowSpan
from paradraft.nets.confidence import ConfidenceHead
from paradraft.nets.correction import MarkovHead
from paradraft.nets.round_heads import ConfidenceTables, MarkovTables
from paradraft.nets.rounds import DraftFeed, Marginals
from paradraft.nets.vocabulary import DraftVocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingPlace:
    """Where a network runs, in which type it counts, and how large its cache is."""

    dtype: torch.dtype
    device: torch.device
    num_pages: int
    page_size: int


def as_tensor(values: IntArray | FloatArray, device: torch.device) -> Tensor:
    """Return an array on the device, whole numbers as int64."""
    wide = values.astype(np.int64) if values.dtype == np.int32 else values
    return torch.from_numpy(np.ascontiguousarray(wide)).to(device)


def scratch_of(feed: DraftFeed, count: int) -> list[IntArray]:
    """Return the first `count` scratch slots of each row."""
    return [feed.scratch_slots[start : start + count] for start in feed.scratch_starts[:-1].tolist()]


def block_spans(feed: DraftFeed, own: Sequence[IntArray], device: torch.device) -> tuple[RowSpan, ...]:
    """Return the rows of a pass in which each feeds len(own[r]) tokens that see its context and one another."""
    spans, first = [], 0
    bounds = feed.context_starts.tolist()
    for row, slots in enumerate(own):
        keys = np.concatenate([feed.context_slots[bounds[row] : bounds[row + 1]], slots])
        stop = first + len(slots)
        run = Slots.of(keys, device)
        spans.append(RowSpan(first=first, stop=stop, keys=run, mask=None, is_causal=False, is_folded=True))
        first = stop
    return tuple(spans)


class MarginalHeads:
    """Everything behind the logits: the best candidates, and the heads that know the token before."""

    def __init__(
        self,
        vocabulary: DraftVocabulary,
        markov: MarkovHead | None,
        confidence: ConfidenceHead | None,
        *,
        device: torch.device,
    ) -> None:
        self._ids = vocabulary.ids.to(device)
        self._markov = None if markov is None else MarkovTables(markov, device=device)
        self._confidence = None if confidence is None else ConfidenceTables(confidence, markov, device=device)
        self.num_bytes = 0 if self._markov is None else self._markov.num_bytes

    def marginals(self, logits: Tensor, hidden: Tensor, feed: DraftFeed) -> Marginals:
        """Return the marginals of logits [R, K, Vd] at slots with hidden states [R, K, d]."""
        wide = logits.to(torch.float32)
        best = torch.topk(wide, min(feed.num_candidates, wide.shape[-1]), dim=-1)
        temperatures = as_tensor(feed.temperatures, wide.device)
        scaled = wide if bool((feed.temperatures == 1.0).all()) else wide / temperatures[:, None, None]
        return Marginals(
            ids=self._ids[best.indices].to(torch.int32).cpu().numpy(),
            logits=best.values.cpu().numpy(),
            log_total=torch.logsumexp(scaled, dim=-1).cpu().numpy(),
            correction=None if self._markov is None else self._markov.round(best.indices, hidden),
            confidence=None if self._confidence is None else self._confidence.round(hidden),
        )
