"""Prompt lookup: what followed the last tokens the last time they occurred (algorithm: Saxena, prompt lookup decoding).

The longest match wins, the most recent occurrence among equals. The cost of a proposal does not depend on the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.draft import Draft, Price, price_of, proposal_of
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.trust import CEILING, Trust

# How often the next token is right after a match of 1, 2, ... tokens: greedy answers of SmolLM2-135M-Instruct to
# MT-Bench, HumanEval and GSM8K prompts, drafted tokens counted as matched (benchmarks/host_draft.py has the command).
HIT_RATES = (0.2, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93)


@dataclass(slots=True)
class _Row:
    index: TokenIndex
    trust: Trust = field(default_factory=Trust)


class NgramDrafter:
    """Copies what followed the most recent occurrence of the last max_match .. min_match tokens.

    A draft ends where another token would cost more than it is expected to bring, at `node_cost` of a plain pass
    for each; 0 drafts all the plan allows. A row's last max_row_tokens tokens are searched.
    """

    needs = Needs(sources=("ngram",), weighs_nodes=True)

    def __init__(
        self,
        *,
        min_match: int = 1,
        max_match: int = 4,
        node_cost: float | None = None,
        max_row_tokens: int = 32768,
    ) -> None:
        if not 1 <= min_match <= max_match <= len(HIT_RATES):
            raise ConfigError(
                f"min_match={min_match}, max_match={max_match} cannot be searched for.",
                remedy=f"Use 1 <= min_match <= max_match <= {len(HIT_RATES)}.",
            )
        orders = range(min_match, max_match + 1)
        self._node_cost = node_cost
        self._rows = RowStates(lambda _batch, _index: _Row(TokenIndex(orders=orders, max_tokens=max_row_tokens)))

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a path for each row whose last tokens occurred before."""
        return proposal_of([self._draft(batch, plan, index) for index in range(batch.num_rows)])

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn how far the row's estimates can be trusted."""
        for index in range(batch.num_rows):
            if proposal.starts[index] < proposal.starts[index + 1]:
                self._rows.of(batch, index).trust.learn(proposal, verdict, index)

    def forget(self, rows: IntArray) -> None:
        """Drop the rows' texts."""
        self._rows.forget(rows)

    def _draft(self, batch: Batch, plan: Plan, index: int) -> Draft:
        if not is_drafting(batch, index):
            return Draft()
        row = self._rows.of(batch, index)
        row.index.follow(batch.history[index])
        depth = int(plan.depth[index])
        price = price_of(plan, self._node_cost)
        return self._copy(row, depth, price).if_worthwhile(price) if depth else Draft()

    def _copy(self, row: _Row, depth: int, price: Price) -> Draft:
        draft = Draft()
        context = row.index.recent(len(HIT_RATES))
        found = row.index.find(context, 1, depth)
        if not found:
            return draft
        matched, follows = found[0]
        trust, confidence = row.trust.use(), 1.0
        for level in range(depth):
            confidence *= min(HIT_RATES[min(matched + level, len(HIT_RATES)) - 1] * trust, CEILING)
            if not draft.pays(confidence, price):
                break
            draft.add(follows[level % len(follows)], level - 1, confidence, source=1)
        return draft
