"""One tree out of several drafters' guesses: each is asked along every path, whoever found it.

At every place what the sources say becomes one blended law (blend.py), and the tree takes the likeliest nodes of all.
So a token that two sources propose is one node, a source goes on below a token that only another proposed, and the node
budget goes where the sources together expect the most. The blend learns from the places whose path was accepted: there,
and only there, it is known what the target says. Under the coupled rule none of this needs any bookkeeping of laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import cast

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.blend import Blend, Pool, lifted
from paradraft.drafters.coupling import Coupling, coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.faults import FaultsOfParts
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guard import GuardedSource
from paradraft.drafters.guesses import Guesses, GuessingDrafter, State, likeliest
from paradraft.drafters.rows import may_use, planned_for

MAX_SOURCE_BITS = 32  # of Proposal.sources


def needs_of(sources: Sequence[GuessingDrafter]) -> Needs:
    """Return what sources need together; their bits stand one after another."""
    names = tuple(name for source in sources for name in source.needs.sources)
    if len(names) > MAX_SOURCE_BITS:
        raise ConfigError(f"{len(names)} kinds of sources do not fit.", remedy=f"Use at most {MAX_SOURCE_BITS}.")
    return Needs(
        sources=names,
        hidden_layers=tuple(sorted({layer for source in sources for layer in source.needs.hidden_layers})),
        entropy_layers=tuple(sorted({layer for source in sources for layer in source.needs.entropy_layers})),
        weighs_nodes=True,
        extra_bytes=sum(source.needs.extra_bytes for source in sources),
    )


def bits_of(sources: Sequence[GuessingDrafter]) -> list[range]:
    """Return the bits of each source in Proposal.sources."""
    ends = [0, *accumulate(len(source.needs.sources) for source in sources)]
    return [range(low, high) for low, high in pairwise(ends)]


class MergedDrafter(FaultsOfParts):
    """Grows one tree per row from the guesses of several drafters; a broken one costs its own guesses alone.

    width: children per node (1: a chain). node_cost: as for SuffixDrafter. is_coupled: the rule is the coupled one.
    """

    def __init__(
        self,
        sources: Sequence[GuessingDrafter],
        *,
        vocab_size: int,
        width: int = 4,
        node_cost: float | None = None,
        is_coupled: bool = False,
    ) -> None:
        if not sources or width < 1:
            raise ConfigError(
                f"{len(sources)} sources and width={width} make no draft.", remedy="Name a source, and a width above 0."
            )
        self.needs = needs_of(sources)
        self.walls = [GuardedSource(source, vocab_size=vocab_size) for source in sources]
        self.parts = self.walls
        # Rows with a temperature are other texts, so what is made of the sources there is learned apart.
        names = ["+".join(source.needs.sources) for source in sources]
        self.pools = {False: Pool(names), True: Pool(names)}
        self._bits = bits_of(sources)
        self._width = width
        self._node_cost = node_cost
        self._is_coupled = is_coupled
        self._asked: dict[int, MergedGuesses] = {}

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a tree for each row that a source has a guess for."""
        guesses = self.guesses(batch, plan)
        return proposal_of([self._draft(plan, index, found) for index, found in enumerate(guesses)])

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Return the blended guesses of each row; asks every source once for all rows."""
        self._asked = {}
        by_source = [_allowed_guesses(wall, batch, plan) for wall in self.walls]
        return [self._merged(batch, index, [found[index] for found in by_source]) for index in range(batch.num_rows)]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Learn what the target said at the places it came to, and let the sources learn."""
        for index, row in enumerate(batch.rows.tolist()):
            asked = self._asked.pop(row, None)
            if asked is not None:
                asked.learn(verdict.tokens_of(index).tolist())
        # The estimates are the blend's, not the sources' own.
        shown = replace(proposal, confidence=None)
        for wall in self.walls:
            wall.observe(batch, shown, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on; what the blend has learned stays."""
        for row in rows.tolist():
            self._asked.pop(row, None)
        for wall in self.walls:
            wall.forget(rows)

    def _merged(self, batch: Batch, index: int, found: list[Guesses | None]) -> Guesses | None:
        if all(guesses is None for guesses in found):
            return None
        noise = coupling_of(batch, index) if self._is_coupled else None
        pool = self.pools[not batch.sampling[index].params.is_greedy]
        merged = MergedGuesses(found, self._bits, pool, noise)
        self._asked[int(batch.rows[index])] = merged
        return merged

    def _draft(self, plan: Plan, index: int, guesses: Guesses | None) -> Draft:
        if guesses is None:
            return Draft()
        price = price_of(plan, self._node_cost)
        return grow(guesses, Budget(int(plan.num_nodes[index]), int(plan.depth[index]), self._width, price))


def _allowed_guesses(wall: GuardedSource, batch: Batch, plan: Plan) -> list[Guesses | None]:
    """Return a source's guesses for the rows that let it draft; in the others it only reads along."""
    allowed = [may_use(batch, index, wall.needs.sources) for index in range(batch.num_rows)]
    found = wall.guesses(batch, planned_for(plan, allowed))
    return [guesses if may else None for guesses, may in zip(found, allowed, strict=True)]


class _Place:
    """A path: where every source stands after it, what was made of that, and the paths one token longer."""

    __slots__ = ("below", "blend", "depth", "states")

    def __init__(self, depth: int, states: list[State | None]) -> None:
        self.depth = depth
        self.states = states
        self.blend: Blend | None = None
        self.below: dict[int, _Place] = {}


class MergedGuesses:
    """The blend of several guesses about one row."""

    def __init__(
        self, sources: Sequence[Guesses | None], bits: Sequence[range], pool: Pool, noise: Coupling | None
    ) -> None:
        """Blend sources, each with the range of its bits in Proposal.sources."""
        self._sources = sources
        self._bits = bits
        self._pool = pool
        self._noise = noise
        self._top = _Place(0, [None if source is None else source.root() for source in sources])

    def root(self) -> State:
        """Return the empty path."""
        return self._top

    def shares(self, state: State) -> dict[int, float]:
        """Return the blended law."""
        place = cast(_Place, state)
        if place.blend is not None:
            return likeliest(place.blend.shares)
        told = [
            None if at is None or source is None else source.shares(at)
            for source, at in zip(self._sources, place.states, strict=True)
        ]
        gumbel = None
        if self._noise is not None:
            gumbel = self._noise.at(place.depth).of({token for said in told if said for token in said})
            told = [said and lifted(said, gumbel) for said in told]
        blend = place.blend = self._pool.blend(told, place.depth, gumbel)
        return likeliest(blend.shares)

    def descend(self, state: State, token: int) -> State | None:
        """Return where every source stands after the token."""
        place = cast(_Place, state)
        known = place.below.get(token)
        if known is not None:
            return known
        states = [
            None if at is None or source is None else source.descend(at, token)
            for source, at in zip(self._sources, place.states, strict=True)
        ]
        below = place.below[token] = _Place(place.depth + 1, states)
        return below

    def source_of(self, state: State, token: int) -> int:
        """Return the bits of the sources that named the token."""
        place = cast(_Place, state)
        if place.blend is None:
            return 0
        bits = 0
        for said, source, own, at in zip(place.blend.told, self._sources, self._bits, place.states, strict=True):
            if said and token in said:
                # Whoever has one bit only need not be asked which.
                bits |= (1 if len(own) == 1 or source is None else source.source_of(at, token)) << own[0]
        return bits

    def learn(self, tokens: Sequence[int]) -> None:
        """Learn from the tokens that the target chose, as far as the path they make was asked about."""
        place: _Place | None = self._top
        for token in tokens:
            if place is None or place.blend is None:
                break
            self._pool.learn(place.blend, token)
            place = place.below.get(token)
