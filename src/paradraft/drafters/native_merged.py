"""The merged tree of sources that only look texts up, all of it in the native core: one call for all rows.

What it proposes is what MergedDrafter (merged.py) proposes over SuffixDrafter, RecentDrafter and TableDrafter in the
same order, which say how and why; tests hold the two together. Texts, counts and the blend's weights live in the
library alone. Its guesses can be asked for one by one, so that it is a source of larger trees as well (frugal.py).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.draft import Draft, price_of
from paradraft.drafters.growth import Budget, SelfGrowing
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.priors import DEPTHS, SourceWeights, Weights, prior_of
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.table.frequent import Frequent, frequent_tokens
from paradraft.drafters.table.layout import Table
from paradraft.native.addresses import int_address
from paradraft.native.guesser import KINDS, Drafts, Guesser, GuesserOptions, Step

_NAMES = {"suffix": ("suffix", "shared"), "recent": ("recent",), "table": ("table",)}
_NOTHING = ints([])


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookups:
    """What is looked up: kinds of sources in the order of the blend, and their bounds, as of the drafters."""

    kinds: tuple[str, ...] = KINDS
    table: Table | None = None  # of the kind table
    shared_tokens: int = 1_000_000
    max_row_tokens: int = 32768  # of the suffix
    max_counted_tokens: int = 4096  # of recent counts
    max_learned: int = 200_000


@dataclass(slots=True)
class _Row:
    number: int  # the guesser's
    known: IntArray  # view of the row's history before its last step
    tail: IntArray = field(default_factory=lambda: _NOTHING)  # committed in that step


class NativeMergedDrafter:
    """Implements guesses.GuessingDrafter; width, node_cost and is_coupled are as for MergedDrafter."""

    def __init__(
        self,
        lookups: Lookups,
        *,
        vocab_size: int,
        width: int = 4,
        node_cost: float | None = None,
        is_coupled: bool = False,
    ) -> None:
        """Build the guesser; raises ModelError without a library, ConfigError for sources that make no draft."""
        kinds = lookups.kinds
        if not kinds or width < 1 or not set(kinds) <= set(KINDS) or ("table" in kinds) != (lookups.table is not None):
            raise ConfigError(
                f"The sources {list(kinds)} and width={width} make no draft.",
                remedy=f"Name some of {', '.join(KINDS)}, a table for the last, and a width above 0.",
            )
        self.needs = Needs(
            sources=tuple(name for kind in kinds for name in _NAMES[kind]),
            weighs_nodes=True,
            extra_bytes=0 if lookups.table is None else lookups.table.num_bytes,
        )
        self._guesser = Guesser(_options(lookups, vocab_size=vocab_size, width=width))
        self._rows = RowStates(self._begin, self._end)
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._last: tuple[Batch, list[Step]] | None = None  # the round's, if no row was forgotten since

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a tree for each row that a source has a guess for."""
        steps = self._steps(batch, plan)
        price = price_of(plan, self._node_cost)
        drafts = self._guesser.propose(steps, (price.node, price.draft))
        starts = drafts.starts
        if len(steps) < batch.num_rows:
            sizes = iter((starts[1:] - starts[:-1]).tolist())
            starts = starts_of([next(sizes) if is_drafting(batch, at) else 0 for at in range(batch.num_rows)])
        tokens, parents, depths, sources = drafts.nodes
        return Proposal(
            starts=starts,
            tokens=tokens,
            parents=parents,
            depths=depths,
            sources=sources.view(np.uint32),
            confidence=drafts.confidence.astype(np.float32),
        )

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the blended guesses of each row, None where it has none."""
        steps = self._steps(batch, plan)
        self._guesser.look_up(steps)
        rows = iter(steps)
        found = [next(rows)[0] if is_drafting(batch, at) else None for at in range(batch.num_rows)]
        return [
            NativeGuesses(self._guesser, row) if row is not None and self._guesser.has_guesses(row) else None
            for row in found
        ]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Learn what the target said at the places it came to."""
        steps = self._last[1] if self._last is not None and self._last[0] is batch else self._steps(batch, None)
        self._last = None
        wanted = [at for at in range(batch.num_rows) if is_drafting(batch, at)]
        chosen = [verdict.tokens_of(at) for at in wanted]
        for at, tokens in zip(wanted, chosen, strict=True):
            row = self._rows.of(batch, at)
            row.known, row.tail = batch.history[at], tokens
        if len(wanted) == batch.num_rows:
            self._guesser.observe(steps, verdict.token_starts, verdict.tokens)
        else:
            self._guesser.observe(steps, starts_of([len(tokens) for tokens in chosen]), join(chosen))

    def forget(self, rows: IntArray) -> None:
        """Drop what is kept for the rows; what they produced is kept for their tenants."""
        self._last = None
        self._rows.forget(rows)

    def weights(self, *, is_warm: bool) -> Weights:
        """Return what the blend has learned, of greedy rows or of others."""
        values = self._guesser.weights(is_warm=is_warm).tolist()
        size = len(fields(SourceWeights))
        parts = [values[begin : begin + size] for begin in range(0, len(values) - DEPTHS - 1, size)]
        return Weights([SourceWeights(*part) for part in parts], values[-DEPTHS - 1 : -1], values[-1])

    def _steps(self, batch: Batch, plan: Plan | None) -> list[Step]:
        """Return the record of each drafting row; without a plan nobody may draft."""
        nothing = [0] * batch.num_rows
        nodes, depths = (nothing, nothing) if plan is None else (plan.num_nodes.tolist(), plan.depth.tolist())
        cached, starts = batch.context_len.tolist(), batch.starts.tolist()
        steps: list[Step] = []
        for at, history in enumerate(batch.history):
            if is_drafting(batch, at):
                row = self._rows.of(batch, at)
                known = min(cached[at] + starts[at + 1] - starts[at], len(history))
                steps.append((row.number, int_address(history), len(history), known, nodes[at], depths[at]))
        self._last = batch, steps
        return steps

    def _begin(self, batch: Batch, index: int) -> _Row:
        sampling, history = batch.sampling[index], batch.history[index]
        # A row that comes back after preemption has shared its first part already.
        number = self._guesser.begin(
            tenant=sampling.tenant,
            answer_from=len(history),
            seed=sampling.seed,
            choice=sampling.choice,
            is_warm=not sampling.params.is_greedy,
            has_noise=self._is_coupled,
        )
        return _Row(number, history)

    def _end(self, row: _Row) -> None:
        self._guesser.end(row.number, join([row.known, row.tail]))


class NativeGuesses(SelfGrowing):
    """One row's guesses; states are numbers of paths."""

    __slots__ = ("_guesser", "_row")

    def __init__(self, guesser: Guesser, row: int) -> None:
        self._guesser = guesser
        self._row = row

    def root(self) -> State:
        """Return the empty path."""
        return 0

    def shares(self, state: State) -> dict[int, float]:
        """Return the blended law."""
        assert isinstance(state, int)
        return self._guesser.shares(self._row, state)

    def descend(self, state: State, token: int) -> State | None:
        """Return the path one token further."""
        assert isinstance(state, int)
        return self._guesser.descend(self._row, state, token)

    def source_of(self, state: State, token: int) -> int:
        """Return the bits of the sources that named the token."""
        assert isinstance(state, int)
        return self._guesser.source_of(self._row, state, token)

    def grown(self, budget: Budget) -> Draft:
        """Return the draft that the guesses support."""
        price = budget.price
        drafts = self._guesser.grow(self._row, budget.nodes, budget.depth, budget.width, (price.node, price.draft))
        return _draft_of(drafts)


def _draft_of(drafts: Drafts) -> Draft:
    tokens, parents, depths, sources = drafts.nodes
    return Draft(
        tokens=tokens.tolist(),
        parents=parents.tolist(),
        depths=depths.tolist(),
        sources=sources.view(np.uint32).tolist(),
        confidence=drafts.confidence.tolist(),
        expected=float(drafts.expected[0]),
    )


def _options(lookups: Lookups, *, vocab_size: int, width: int) -> GuesserOptions:
    prior = prior_of(["+".join(_NAMES[kind]) for kind in lookups.kinds])
    frequent = _frequent(lookups.table, vocab_size)
    return GuesserOptions(
        vocab_size=vocab_size,
        kinds=lookups.kinds,
        weights=np.array([_values_of(prior)] * 2),
        width=width,
        shared_tokens=lookups.shared_tokens,
        row_tokens=lookups.max_row_tokens,
        counted_tokens=lookups.max_counted_tokens,
        learned_contexts=lookups.max_learned,
        orders=() if lookups.table is None else lookups.table.orders,
        frequent=frequent.ids,
        frequent_log_shares=frequent.log_shares,
    )


def _values_of(weights: Weights) -> list[float]:
    return [value for source in weights.sources for value in astuple(source)] + [*weights.depth, weights.noise]


def _frequent(table: Table | None, vocab_size: int) -> Frequent:
    single = [order for order in (table.orders if table is not None else ()) if order.length == 1]
    return frequent_tokens(single[0], vocab_size) if single else Frequent(_NOTHING, np.zeros(0))
