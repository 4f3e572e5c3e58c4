"""One tree out of free sources and a network, which is asked only for rows where that pays.

The free sources are a merged tree of their own (merged.py), which is grown first. Where the network is asked (worth.py
says where), tree and network are blended like two sources: what the free sources say together is one of them. Where it
is not, the draft is the free sources' own, as if there were no network. Under the coupled rule this changes when tokens
come, never which.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Clock, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.blend import Pool
from paradraft.drafters.coupling import coupling_of
from paradraft.drafters.draft import Draft, Price, price_of, proposal_of
from paradraft.drafters.faults import FaultsOfParts, walled_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guard import GuardedSource
from paradraft.drafters.guesses import Guesses, GuessingDrafter
from paradraft.drafters.merged import MergedGuesses, bits_of, needs_of
from paradraft.drafters.rows import planned_for
from paradraft.drafters.worth import Class, Worth, class_of

FREE, NETWORK = "free", "network"  # names of the two in the pool that blends them


@dataclass(slots=True)
class _Row:
    """A row of the round: the free sources' draft of it, its class, and both blended where the network was asked."""

    free: Draft
    kind: Class
    price: Price
    joint: MergedGuesses | None = None


class FrugalDrafter(FaultsOfParts):
    """Grows one tree per row from free guesses, and from a network's where it is worth its time.

    free: a drafter whose guesses cost no pass. The others are as for MergedDrafter. worth keeps what was measured.
    """

    def __init__(
        self,
        free: GuessingDrafter,
        network: GuessingDrafter,
        *,
        vocab_size: int,
        width: int = 4,
        node_cost: float | None = None,
        is_coupled: bool = False,
        clock: Clock = time.perf_counter,
    ) -> None:
        if width < 1:
            raise ConfigError(f"width={width} makes no draft.", remedy="Use a width above 0.")
        self.needs = needs_of([free, network])
        self.free = free
        self.wall = GuardedSource(network, vocab_size=vocab_size)
        self.parts = walled_of(free, self.wall)
        self.pools = {is_warm: Pool([FREE, NETWORK]) for is_warm in (False, True)}
        self.worth = Worth()
        self._bits = bits_of([free, network])
        self._width = width
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._clock = clock
        self._rows: dict[int, _Row] = {}
        self._began = 0.0

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a tree for each row that a source has a guess for."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(batch, plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the guesses of each row: the free sources', blended with the network's where it is asked."""
        self._began = self._clock()
        found = self.free.guesses(batch, plan)
        rows = [self._row(batch, plan, index, free) for index, free in enumerate(found)]
        self._rows = {int(batch.rows[index]): row for index, row in enumerate(rows) if row is not None}
        wanted = self.worth.choose([None if row is None else row.kind for row in rows])
        if not any(wanted):
            return found
        began = self._clock()
        told = self.wall.guesses(batch, planned_for(plan, wanted))
        self.worth.note_round(sum(wanted), self._clock() - began)
        return [
            free if row is None or network is None else self._joined(batch, index, row, [free, network])
            for index, (row, free, network) in enumerate(zip(rows, found, told, strict=True))
        ]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Learn what asking brought and what the target said, and let the sources learn."""
        for index, row in enumerate(batch.rows.tolist()):
            known = self._rows.get(row)
            if known is not None and known.joint is not None:
                tokens = verdict.tokens_of(index).tolist()
                if tokens:
                    self.worth.note_gain(known.kind, _gain(known, tokens, int(proposal.num_nodes[index])))
                known.joint.learn(tokens)
        if len(self._rows) == batch.num_rows:  # prompts fed beside take a time of their own
            self.worth.note_step(len(verdict.tokens), self._clock() - self._began)
        self._rows = {}
        shown = replace(proposal, confidence=None)
        self.free.observe(batch, shown, scores, verdict)
        self.wall.observe(batch, shown, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on; what was learned stays."""
        for row in rows.tolist():
            self._rows.pop(row, None)
        self.free.forget(rows)
        self.wall.forget(rows)

    def _row(self, batch: Batch, plan: Plan, index: int, free: Guesses | None) -> _Row | None:
        if not plan.num_nodes[index]:
            return None
        draft = Draft() if free is None else self._grown(plan, index, free)
        is_warm = not batch.sampling[index].params.is_greedy
        return _Row(draft, class_of(draft.expected, is_warm=is_warm), price_of(plan, self._node_cost))

    def _joined(self, batch: Batch, index: int, row: _Row, found: Sequence[Guesses | None]) -> Guesses:
        noise = coupling_of(batch, index) if self._is_coupled else None
        row.joint = MergedGuesses(found, self._bits, self.pools[row.kind.is_warm], noise)
        return row.joint

    def _draft(self, batch: Batch, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        row = self._rows.get(int(batch.rows[index]))
        if row is None or guesses is None:
            return Draft()
        return row.free if row.joint is None else self._grown(plan, index, guesses)

    def _grown(self, plan: Plan, index: int, guesses: Guesses) -> Draft:
        price = price_of(plan, self._node_cost)
        return grow(guesses, Budget(int(plan.num_nodes[index]), int(plan.depth[index]), self._width, price))


def _gain(row: _Row, tokens: Sequence[int], num_nodes: int) -> float:
    """Return what asking brought, in tokens: those it made stand, less what its nodes cost more than the free draft's.

    The target chose the last token itself, so all the others stood.
    """
    price, free = row.price, row.free
    first = price.draft * ((num_nodes > 0) - (len(free) > 0))
    more = first + price.node * (num_nodes - len(free))
    return len(tokens) - 1 - _num_standing(free, tokens) - more * free.expected / free.cost(price)


def _num_standing(draft: Draft, tokens: Sequence[int]) -> int:
    """Return how many nodes of a draft would stand if the target chooses these tokens."""
    below = {place: node for node, place in enumerate(zip(draft.parents, draft.tokens, strict=True))}
    node = -1
    for count, token in enumerate(tokens):
        found = below.get((node, token))
        if found is None:
            return count
        node = found
    return len(tokens)
