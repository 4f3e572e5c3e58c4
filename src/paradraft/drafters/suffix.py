"""Suffix decoding (Oliaro et al., arXiv 2411.04975): drafts from the row's own text and from finished answers.

The paper walks two suffix trees and takes the draft with the better score. Here the occurrences of the longest
matching suffix vote, the row's own text first and the shared one for what it leaves open (votes.py), which
predicts better than either alone and needs no tree: texts and hash chains only (occurrences.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray, ints, join
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guesses import Guesses
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.shared import SharedTexts
from paradraft.drafters.trust import Trust
from paradraft.drafters.voter_guesses import TextVoters, VoterGuesses
from paradraft.drafters.votes import MAX_MATCH, Body

ORDERS = (1, 2, 5)
MAX_VOTERS = 5  # of one body; more cost more time than they are worth
# Cautions are tuned until estimated and observed acceptance agreed; recency helps in a row's own text only.
_OWN_CAUTION = (2.0, 1.0, 0.5, 0.5, 0.4, 0.3, 0.25, 0.18, 0.11, 0.08)
_SHARED_CAUTION = (3.0, 2.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
OWN = Body(source=0, caution=_OWN_CAUTION, is_recency_weighted=True)
SHARED = Body(source=1, caution=_SHARED_CAUTION, is_recency_weighted=False)


@dataclass(slots=True)
class _Row:
    index: TokenIndex
    tenant: str
    answer_from: int  # where the part of the text begins that is new to the shared texts
    tail: IntArray = field(default_factory=lambda: ints([]))  # committed in the last step, not indexed yet
    trust: Trust = field(default_factory=Trust)

    def answer(self) -> IntArray:
        """Return what the row has produced."""
        count = max(self.index.end - self.answer_from, 0)
        return join([self.index.recent(count)[::-1], self.tail])


class SuffixDrafter:
    """Lets earlier occurrences of the row's last tokens vote on what comes next.

    `width` children per node make a tree, 1 a chain. A draft ends where another node would cost more than it is
    expected to bring, at the plan's price or at `node_cost` of a plain pass each (0: drafts all it may). shared_tokens
    bounds the finished answers kept over all tenants (about 52 bytes each), 0 keeps none; a row's last max_row_tokens
    are read. is_coupled: the rule is the coupled one, so that rows with a temperature draft along its noise.
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
        if width < 1:
            raise ConfigError(f"width={width} leaves no draft.", remedy="Use 1 for chains, more for trees.")
        self.shared = SharedTexts(orders=ORDERS, max_tokens=shared_tokens)
        self._width = width
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._max_row_tokens = max_row_tokens
        self._rows = RowStates(self._new_row, self._publish)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a draft for each row whose last token occurred before."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the votes of each row's own text and of the shared ones."""
        return [self._guesses(batch, plan, index) for index in range(batch.num_rows)]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn how far the row's estimates can be trusted, and keep its last tokens in case it ends here."""
        for index in range(batch.num_rows):
            if is_drafting(batch, index):
                row = self._rows.of(batch, index)
                row.index.follow(batch.history[index])
                row.tail = verdict.tokens_of(index).copy()
                row.trust.learn(proposal, verdict, index)

    def forget(self, rows: IntArray) -> None:
        """Drop the rows' texts; what they have produced joins the shared texts."""
        self._rows.forget(rows)

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

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        if guesses is None:
            return Draft()
        budget = Budget(
            int(plan.num_nodes[index]), int(plan.depth[index]), self._width, price_of(plan, self._node_cost)
        )
        noise = coupling_of(batch, index) if self._is_coupled else None
        return grow(guesses, budget, noise, trust=self._rows.of(batch, index).trust.use())

    def _guesses(self, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        if not is_drafting(batch, index):
            return None
        row = self._rows.of(batch, index)
        row.index.follow(batch.history[index])
        row.tail = ints([])
        if not plan.num_nodes[index]:
            return None
        voters = [TextVoters(OWN, row.index, MAX_VOTERS)]
        others = self.shared.of(row.tenant)
        if others is not None:
            voters.append(TextVoters(SHARED, others, MAX_VOTERS))
        return VoterGuesses(voters, row.index.recent(MAX_MATCH), depth=int(plan.depth[index]))
