"""A drafter that branches where a selector finds it unsure, around any drafter that tells its guesses.

It can also keep what a selector is fitted on: the features of each position that was decided, and how surprising the
token was that came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.ports import Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.faults import FaultsOfParts, walled_of
from paradraft.drafters.growth import Budget
from paradraft.drafters.guesses import Guesses, GuessingDrafter, State
from paradraft.drafters.neural.selector import Selector, features_of, surprise
from paradraft.drafters.neural.uncertain_tree import UncertainTree
from paradraft.drafters.rows import RowStates
from paradraft.drafters.trust import Trust


@dataclass(slots=True)
class UncertaintyCounts:
    """What was unsure, and what became of it."""

    positions: int = 0  # that were judged
    uncertain_positions: int = 0
    nodes: int = 0
    uncertain_nodes: int = 0  # nodes at uncertain positions
    accepted: int = 0
    uncertain_accepted: int = 0

    @property
    def node_share(self) -> float:
        """Return the share of nodes at uncertain positions."""
        return self.uncertain_nodes / self.nodes if self.nodes else 0.0


@dataclass(slots=True)
class _Row:
    entropies: FloatArray | None = None  # of the attention that chose the last token
    guesses: Guesses | None = None  # of the round under way
    sure_depth: int | None = None  # of the round's draft
    trust: Trust = field(default_factory=Trust)


class UncertaintyDrafter(FaultsOfParts):
    """Grows the guesses of another drafter into paths that branch where its selector is unsure."""

    def __init__(
        self,
        inner: GuessingDrafter,
        selector: Selector,
        *,
        is_coupled: bool = True,
        node_cost: float | None = None,
    ) -> None:
        """Shape inner's guesses."""
        layers = tuple(sorted({*inner.needs.entropy_layers, selector.layer}))
        self.needs = replace(inner.needs, entropy_layers=layers, weighs_nodes=True, is_sampled=False)
        self.counts = UncertaintyCounts()
        self.parts = walled_of(inner)
        self._inner = inner
        self._selector = selector
        self._is_coupled = is_coupled
        self._node_cost = node_cost
        self._log: deque[tuple[FloatArray, float]] = deque(maxlen=0)
        self._rows = RowStates(lambda _batch, _index: _Row())

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a path or a tree for each row, by how sure the drafter is of it."""
        found = self._inner.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, guesses) for index, guesses in enumerate(found)])

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Count, log, and note the entropies at the token that was fed last."""
        entropies = scores.attention_entropy(self._selector.layer)
        for index in range(batch.num_rows):
            row = self._rows.of(batch, index)
            self._settle(row, proposal, verdict, index)
            path = verdict.path_of(index)
            last = int(scores.fed_starts[index]) + batch.pending_len(index) - 1
            row.entropies = entropies[last + 1 + int(path[-1]) if len(path) else last].copy()
        # The inner drafter has its own idea of what it would have proposed.
        self._inner.observe(batch, replace(proposal, confidence=None), scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Drop the rows."""
        self._rows.forget(rows)
        self._inner.forget(rows)

    def start_log(self, num_positions: int) -> None:
        """Keep what a selector is fitted on, of so many positions at most, the latest."""
        self._log = deque(self._log, maxlen=num_positions)

    def take_log(self) -> tuple[FloatArray, FloatArray]:
        """Return and drop the logged positions: features [n, F] and surprises [n] in nats."""
        entries = list(self._log)
        self._log.clear()
        features = np.array([features for features, _ in entries], dtype=np.float32)
        return features, np.array([value for _, value in entries], dtype=np.float32)

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        row = self._rows.of(batch, index)
        row.guesses, row.sure_depth = guesses, None
        if guesses is None:
            return Draft()
        tree = UncertainTree(
            guesses=guesses,
            budget=Budget(int(plan.num_nodes[index]), int(plan.depth[index]), 0, price_of(plan, self._node_cost)),
            is_uncertain=lambda shares, depth: self._is_uncertain(row, shares, depth),
            noise=coupling_of(batch, index) if self._is_coupled else None,
            trust=row.trust.use(),
        )
        draft = tree.grow()
        row.sure_depth = tree.sure_depth
        self.counts.positions += tree.num_asked
        self.counts.uncertain_positions += tree.num_unsure
        return draft

    def _is_uncertain(self, row: _Row, shares: Mapping[int, float], depth: int) -> bool:
        if row.entropies is None:
            return False
        features = features_of(row.entropies, shares, depth)
        return self._selector.expected_surprise(features) > self._selector.threshold

    def _settle(self, row: _Row, proposal: Proposal, verdict: Verdict, index: int) -> None:
        """Count a round's nodes and log its positions; its guesses end here."""
        depths = proposal.depths[proposal.starts[index] : proposal.starts[index + 1]]
        path = verdict.path_of(index)
        self.counts.nodes += len(depths)
        self.counts.accepted += len(path)
        if row.sure_depth is not None:
            self.counts.uncertain_nodes += int(np.count_nonzero(depths > row.sure_depth))
            self.counts.uncertain_accepted += int(np.count_nonzero(depths[path] > row.sure_depth))
        row.trust.learn(proposal, verdict, index)
        guesses, row.guesses, row.sure_depth = row.guesses, None, None
        if guesses is not None and row.entropies is not None and self._log.maxlen:
            self._note(row.entropies, guesses, verdict.tokens_of(index).tolist())

    def _note(self, entropies: FloatArray, guesses: Guesses, tokens: list[int]) -> None:
        state: State | None = guesses.root()
        for depth, token in enumerate(tokens):
            shares = guesses.shares(state) if state is not None else {}
            if state is None or not shares:
                return
            self._log.append((features_of(entropies, shares, depth), surprise(shares, token)))
            state = guesses.descend(state, token)
