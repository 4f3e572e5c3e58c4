"""Suffix decoding (Oliaro et al., arXiv 2411.04975): drafts from the row's own text and from finished answers.

The paper walks two suffix trees and takes the draft with the better score. Here the occurrences of the longest
matching suffix vote, the row's own text first and the shared one for what it leaves open (votes.py), which
predicts better than either alone and needs no tree: texts and hash chains only (occurrences.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray, ints, join
from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan, Verdict
from paradraft.drafters.guesses import Guesses
from paradraft.drafters.lookup_drafter import Growth, LookupDrafter
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.rows import RowStates
from paradraft.drafters.shared import SharedTexts
from paradraft.drafters.trust import Trust
from paradraft.drafters.voter_guesses import VoterGuesses
from paradraft.drafters.votes import MAX_MATCH, Body, find_voters

ORDERS = (1, 2, 5)
MAX_VOTERS = 5  # of one body; more cost more time than they are worth
# Cautions are tuned until estimated and observed acceptance agreed; recency helps in a row's own text only.
_OWN_CAUTION = (2.0, 1.0, 0.5, 0.5, 0.4, 0.3, 0.25, 0.18, 0.11, 0.08)
_SHARED_CAUTION = (3.0, 2.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
OWN = Body(source=0, caution=_OWN_CAUTION, is_recency_weighted=True)
SHARED = Body(source=1, caution=_SHARED_CAUTION, is_recency_weighted=False)
_NOTHING = ints([])


@dataclass(slots=True)
class _Row:
    index: TokenIndex
    tenant: str
    answer_from: int  # where the part of the text begins that is new to the shared texts
    tail: IntArray = field(default_factory=lambda: _NOTHING)  # committed in the last step, not indexed yet
    trust: Trust = field(default_factory=Trust)

    def answer(self) -> IntArray:
        """Return what the row has produced."""
        count = max(self.index.end - self.answer_from, 0)
        return join([self.index.recent(count)[::-1], self.tail])


class SuffixDrafter(LookupDrafter[_Row]):
    """Lets earlier occurrences of the row's last tokens vote on what comes next.

    shared_tokens bounds the finished answers kept over all tenants (about 52 bytes each), 0 keeps none; a row's last
    max_row_tokens are read. width, node_cost, is_coupled: see Growth.
    """

    needs = Needs(sources=("suffix", "shared"), weighs_nodes=True)

    def __init__(
        self,
        *,
        shared_tokens: int = 1_000_000,
        width: int = 1,
        node_cost: float | None = None,
        max_row_tokens: int = 32768,
        is_coupled: bool = False,
    ) -> None:
        super().__init__(
            RowStates(self._new_row, self._publish), Growth(width=width, node_cost=node_cost, is_coupled=is_coupled)
        )
        self.shared = SharedTexts(orders=ORDERS, max_tokens=shared_tokens)
        self._max_row_tokens = max_row_tokens

    def look_up(self, row: _Row, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        """Return the votes of the row's own text and of the shared ones."""
        row.index.follow(batch.history[index])
        row.tail = _NOTHING
        if not plan.num_nodes[index]:
            return None
        context, depth = row.index.recent(MAX_MATCH), int(plan.depth[index])
        camp = [
            [] if text is None else find_voters(body, text, context, limit=MAX_VOTERS, depth=depth)
            for body, text in ((OWN, row.index), (SHARED, self.shared.of(row.tenant)))
        ]
        return VoterGuesses((OWN, SHARED), camp, depth=depth) if any(camp) else None

    def keep(self, row: _Row, batch: Batch, verdict: Verdict, index: int) -> None:
        """Keep the row's last tokens: when it ends, what it has produced joins the shared texts."""
        row.index.follow(batch.history[index])
        row.tail = verdict.tokens_of(index)

    def _new_row(self, batch: Batch, index: int) -> _Row:
        sampling = batch.sampling[index]
        # A row that comes back after preemption has shared its first part already.
        return _Row(
            index=TokenIndex(orders=ORDERS, max_tokens=self._max_row_tokens),
            tenant=sampling.tenant,
            answer_from=len(batch.history[index]),
        )

    def _publish(self, row: _Row) -> None:
        self.shared.add(row.tenant, row.answer())
