"""Which of a drafter's sources may draft for a request: the nodes that only others proposed are left out.

Who may draft is said before anything is drawn. Under the coupled and the greedy rule no tree changes the answer. Under
the sampling rules a node that was chosen deterministically may be left out for its sources, for they too follow from
what was known before. A node that was drawn may not: whether another source names the same token depends on what came
out of the draw. So a drafter that draws keeps all of its sources or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.errors import RequestRefused
from paradraft.core.ports import Drafter, Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.core.sampling import EVERY_SOURCE, SamplingParams
from paradraft.scheduling.verification import cut


def check_sources(params: SamplingParams, needs: Needs) -> None:
    """Raise RequestRefused for a source that the drafter does not have, or that cannot draft without the others."""
    if not params.is_choosy or not params.draft_from:
        return
    known = needs.sources
    for name in params.draft_from:
        if name not in known:
            raise RequestRefused(
                f"draft_from={name!r} is no source of the drafter that is loaded.",
                remedy=f"Use auto, none{', ' if known else ''}{', '.join(dict.fromkeys(known))}.",
            )
    if needs.is_sampled and not set(known) <= set(params.draft_from):
        raise RequestRefused(
            f"draft_from={params.draft_from[0]!r} is a part of a drafter that draws its nodes, and leaving some of "
            "them out would change the law of the answer.",
            remedy="Use auto or none, or the coupled rule.",
        )


class ChoosyDrafter:
    """A drafter of whose proposals each row gets what its request's sources proposed."""

    def __init__(self, inner: Drafter) -> None:
        self.needs = inner.needs
        self._inner = inner
        self._everything = (1 << len(inner.needs.sources)) - 1

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return the inner proposal without the nodes of sources that were not asked for, and what hangs on them."""
        proposal = self._inner.propose(batch, plan)
        if not len(proposal.tokens) or not any(row.params.is_choosy for row in batch.sampling):
            return proposal
        masks = [self._mask(row.params) for row in batch.sampling]
        kept, bits = _kept(proposal, masks)
        if len(kept) < len(proposal.tokens):
            proposal = cut(proposal, kept)
        return replace(proposal, sources=np.array(bits, dtype=np.uint32))

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Pass the step on."""
        self._inner.observe(batch, proposal, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on."""
        self._inner.forget(rows)

    def _mask(self, params: SamplingParams) -> int:
        """Return the bits of the sources that may draft."""
        if params.draft_from == (EVERY_SOURCE,):
            return self._everything
        return sum(1 << bit for bit, name in enumerate(self.needs.sources) if name in params.draft_from)


def _kept(proposal: Proposal, masks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the nodes that stay, parents before children, and the bits of each."""
    sources: list[int] = proposal.sources.tolist()
    parents: list[int] = proposal.parents.tolist()
    kept: list[int] = []
    bits: list[int] = []
    for mask, (low, high) in zip(masks, pairwise(proposal.starts.tolist()), strict=True):
        stands = [False] * (high - low)
        for node, (source, parent) in enumerate(zip(sources[low:high], parents[low:high], strict=True)):
            stands[node] = bool(source & mask) and (parent < 0 or stands[parent])
            if stands[node]:
                kept.append(low + node)
                bits.append(source & mask)
    return kept, bits
