"""Prompt lookup: what followed the last tokens the last time they occurred (algorithm: Saxena, prompt lookup decoding).

The longest match wins, the most recent occurrence among equals. The cost of a proposal does not depend on the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.lookup_drafter import Growth, LookupDrafter
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.rows import RowStates
from paradraft.drafters.trust import Trust

# How often the next token is right after a match of 1, 2, ... tokens: greedy answers of SmolLM2-135M-Instruct to
# MT-Bench, HumanEval and GSM8K prompts, drafted tokens counted as matched (benchmarks/host_draft.py has the command).
HIT_RATES = (0.2, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93)


@dataclass(slots=True)
class _Row:
    index: TokenIndex
    trust: Trust = field(default_factory=Trust)


class NgramDrafter(LookupDrafter[_Row]):
    """Copies what followed the most recent occurrence of the last max_match .. min_match tokens.

    A row's last max_row_tokens tokens are searched. node_cost, is_coupled: see Growth.
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
        super().__init__(
            RowStates(lambda _batch, _index: _Row(TokenIndex(orders=orders, max_tokens=max_row_tokens))),
            Growth(node_cost=node_cost, is_coupled=is_coupled),
        )

    def look_up(self, row: _Row, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        """Return the continuation of the last occurrence."""
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
