"""Drafts of a network that has to be fed what it drafted: chains and dynamic trees (EAGLE-2: arXiv 2406.16858).

All rows walk together, one pass of the network per level. A tree walk extends the `beam` likeliest nodes of the newest
level, likely meaning all ancestors included; which of the candidates seen become drafts is decided afterwards
(growth.py), and that is the reranking of EAGLE-2. Under the coupled rule the target's noise bends both choices.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from paradraft.core.arrays import ints
from paradraft.core.ports import Noise
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft
from paradraft.drafters.guesses import State
from paradraft.drafters.neural.drawn import DrawnDraft
from paradraft.drafters.neural.guesses import SOURCE
from paradraft.drafters.neural.law import SlotLaw, slot_law, told
from paradraft.drafters.neural.overlap import Overlap
from paradraft.nets.serving.rounds import Marginals
from paradraft.nets.serving.steps import Level, SteppedRound

_UNUSED = 0  # no correction reads the token before: it was fed


class Walk(Protocol):
    """One row's way through a round."""

    params: SamplingParams

    def learn(self, node: int, law: SlotLaw) -> None:
        """Hear what comes below a node of the round: the anchor's at first, then those asked for, in their order."""
        ...

    def ask(self) -> list[tuple[int, int]]:
        """Return (node of the round, token below it) to be fed next; none ends the walk. Called once a level."""
        ...


def run_walks(opened: SteppedRound, walks: Sequence[Walk]) -> None:
    """Walk until no row asks for more; walk r is that of the round's row r."""
    _tell(walks, range(len(walks)), opened.anchors)
    num_nodes = len(walks)
    while True:
        asked = [(walk, node, token) for walk in walks for node, token in walk.ask()]
        if not asked:
            return
        level = opened.extend(ints([node for _, node, _ in asked]), ints([token for _, _, token in asked]))
        _tell([walk for walk, _, _ in asked], range(num_nodes, num_nodes + len(asked)), level)
        num_nodes += len(asked)


def _tell(walks: Sequence[Walk], nodes: Sequence[int], level: Level) -> None:
    marginals = Marginals(ids=level.ids[:, None], logits=level.logits[:, None], log_total=level.log_total[:, None])
    for at, (walk, node) in enumerate(zip(walks, nodes, strict=True)):
        walk.learn(node, slot_law(marginals, (at, 0), _UNUSED, walk.params))


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeTerms:
    """How far a row's tree may be looked into.

    beam: nodes extended per level, and children looked at per node; 1 for a chain. num_nodes: of the draft; a node that
    is not among so many best candidates is not extended. floor: least chance of a node to be worth extending.
    """

    depth: int
    num_nodes: int
    beam: int = 1
    floor: float = 0.0
    coupling: Coupling | None = None


@dataclass(slots=True, eq=False)
class _Node:
    """A place that the network was asked about."""

    number: int  # in the round
    depth: int
    chance: float  # that it stands, the noise counted in
    shares: dict[int, float] = field(default_factory=dict)
    extended: dict[int, _Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class TreeWalk:
    """Implements Walk, and drafters.guesses.Guesses over what it found."""

    params: SamplingParams
    terms: TreeTerms
    _waiting: deque[_Node] = field(default_factory=deque)
    _newest: list[_Node] = field(default_factory=list)
    _best: list[float] = field(default_factory=list)  # a heap of the num_nodes best candidates' chances
    _top: _Node | None = None

    def learn(self, node: int, law: SlotLaw) -> None:
        """See Walk."""
        if self._top is None:
            self._top = _Node(node, 0, 1.0)
            self._waiting.append(self._top)
        place = self._waiting.popleft()
        place.number = node
        kept = told(law, place.depth, self.terms.coupling)
        place.shares = dict(zip(law.ids[kept].tolist(), law.probabilities[kept].tolist(), strict=True))
        self._newest.append(place)

    def ask(self) -> list[tuple[int, int]]:
        """See Walk."""
        offers = [offer for place in self._newest for offer in self._offers(place)]
        self._newest = []
        for _, chance, _ in offers:
            if len(self._best) < self.terms.num_nodes:
                heapq.heappush(self._best, chance)
            else:
                heapq.heappushpop(self._best, chance)
        chosen = heapq.nlargest(self.terms.beam, offers, key=lambda offer: offer[1])
        asked = []
        for place, chance, token in chosen:
            if place.depth + 1 < self.terms.depth and chance >= max(self._best[0], self.terms.floor):
                child = place.extended[token] = _Node(-1, place.depth + 1, chance)
                self._waiting.append(child)
                asked.append((place.number, token))
        return asked

    def root(self) -> State:
        """Return the state of the empty path."""
        return self._top

    def shares(self, state: State) -> dict[int, float]:
        """Return token -> chance that it comes next."""
        return dict(cast(_Node, state).shares)

    def descend(self, state: State, token: int) -> State | None:
        """Return the state behind a token that was fed to the network, else None."""
        return cast(_Node, state).extended.get(token)

    def source_of(self, state: State, token: int) -> int:
        """Return the network's bit if the token is one of the shares."""
        return SOURCE if token in cast(_Node, state).shares else 0

    def _offers(self, place: _Node) -> list[tuple[_Node, float, int]]:
        coupling = self.terms.coupling
        shares = place.shares if coupling is None else coupling.bend(place.shares, place.depth)
        best = heapq.nlargest(self.terms.beam, shares.items(), key=lambda item: item[1])
        return [(place, place.chance * share, token) for token, share in best]


@dataclass(slots=True, eq=False)
class DrawnWalk:
    """Implements Walk: a chain of `depth` tokens, each drawn from the law behind the one before.

    Its length depends on nothing that is drawn, as the rules that sample ask for; start is the position of the first.
    """

    params: SamplingParams
    depth: int
    noise: Noise
    overlap: Overlap
    start: int
    drawn: DrawnDraft = field(default_factory=lambda: DrawnDraft(Draft()))
    _node: int = -1

    def learn(self, node: int, law: SlotLaw) -> None:
        """See Walk."""
        self._node = node
        if len(self.drawn.draft) < self.depth:
            self.drawn.draw(law.drawn_from(), self.noise, self.overlap, start=self.start)

    def ask(self) -> list[tuple[int, int]]:
        """See Walk."""
        draft = self.drawn.draft
        return [(self._node, draft.tokens[-1])] if 0 < len(draft) < self.depth else []
