"""Prompt lookup: what followed the last tokens the last time they occurred (algorithm: Saxena, prompt lookup decoding).

The longest match wins, the most recent occurrence among equals. The cost of a proposal does not depend on the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.trust import Trust

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
    for each; 0 drafts all the plan allows. A row's last max_row_tokens tokens are searched. is_coupled: the rule is the
    coupled one, so that rows with a temperature draft along its noise.
    """

    needs = Needs(sources=("ngram",), weighs_nodes=True)

    def __init__(
        self,
        *,
        min_match: int = 1,
        max_match: int = 4,
        node_cost: float | None = None,
        max_row_tokens: int = 32768,
        is_coupled: bool = False,
    ) -> None:
        if not 1 <= min_match <= max_match <= len(HIT_RATES):
            raise ConfigError(
                f"min_match={min_match}, max_match={max_match} cannot be searched for.",
                remedy=f"Use 1 <= min_match <= max_match <= {len(HIT_RATES)}.",
            )
        orders = range(min_match, max_match + 1)
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._rows = RowStates(lambda _batch, _index: _Row(TokenIndex(orders=orders, max_tokens=max_row_tokens)))

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a path for each row whose last tokens occurred before."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the continuation of each row's last occurrence."""
        return [self._guesses(batch, plan, index) for index in range(batch.num_rows)]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn how far the row's estimates can be trusted."""
        for index in range(batch.num_rows):
            if proposal.starts[index] < proposal.starts[index + 1]:
                self._rows.of(batch, index).trust.learn(proposal, verdict, index)

    def forget(self, rows: IntArray) -> None:
        """Drop the rows' texts."""
        self._rows.forget(rows)

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        if guesses is None:
            return Draft()
        budget = Budget(int(plan.num_nodes[index]), int(plan.depth[index]), 1, price_of(plan, self._node_cost))
        noise = coupling_of(batch, index) if self._is_coupled else None
        return grow(guesses, budget, noise, trust=self._rows.of(batch, index).trust.use())

    def _guesses(self, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        if not is_drafting(batch, index):
            return None
        row = self._rows.of(batch, index)
        row.index.follow(batch.history[index])
        depth = int(plan.depth[index])
        found = row.index.find(row.index.recent(len(HIT_RATES)), 1, depth) if depth and plan.num_nodes[index] else []
        if not found or not found[0][1]:
            return None
        return CopyGuesses(follows=found[0][1], matched=found[0][0])


@dataclass(frozen=True, slots=True)
class CopyGuesses:
    """One continuation, gone through in a circle; its states are how many of its tokens the path has."""

    follows: list[int]
    matched: int

    def root(self) -> State:
        """Return the state before the first token."""
        return 0

    def shares(self, state: State) -> dict[int, float]:
        """Return the next token with how often one is right after a match this long."""
        assert isinstance(state, int)
        rate = HIT_RATES[min(self.matched + state, len(HIT_RATES)) - 1]
        return {self.follows[state % len(self.follows)]: rate}

    def descend(self, state: State, token: int) -> State | None:
        """Return the next state if the path goes on as the copy does."""
        assert isinstance(state, int)
        return state + 1 if token == self.follows[state % len(self.follows)] else None

    def source_of(self, state: State, token: int) -> int:
        """Return the bit of the text if the copy goes on with this token."""
        assert isinstance(state, int)
        return int(token == self.follows[state % len(self.follows)])
