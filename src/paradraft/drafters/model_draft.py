"""One row's draft by a model while it grows, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.ports import Scores
from paradraft.core.records import DraftLaws
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import (
    DraftHeat,
    DraftLaw,
    Guess,
    RaceNoise,
    best,
    draft_law,
    draws,
    is_deterministic,
    race,
)
from paradraft.drafters.draft import Draft
from paradraft.drafters.model_row import Feed, ModelRow

ROOT = -1
SOURCE = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftTerms:
    """What bounds a draft and how its nodes are chosen."""

    nodes: int
    depth: int
    branching: tuple[int, ...]  # children per node by level; 1 behind the last
    is_sampled: bool
    min_confidence: float
    heat: DraftHeat
    to_target: IntArray  # [draft vocabulary]
    params: SamplingParams
    start: int  # position, in the target's text, of the first token to draft

    @property
    def is_chain(self) -> bool:
        """Whether no level branches."""
        return all(width == 1 for width in self.branching[: self.depth])

    @property
    def num_slots(self) -> int:
        """Return how many drafts may be fed back to the model."""
        return max(self.depth - 1, 0) if self.is_chain else self.nodes

    def width(self, level: int) -> int:
        """Return the children per node of a level, from 0."""
        return self.branching[level] if level < len(self.branching) else 1


@dataclass(slots=True, eq=False)
class ModelDraft:
    """The nodes drafted so far; `frontier` are those of the last level, which have no children yet."""

    row: ModelRow
    index: int  # of the row in the batch
    terms: DraftTerms
    noise: RaceNoise
    draft: Draft = field(default_factory=Draft)
    draft_tokens: list[int] = field(default_factory=list)  # the nodes in the drafter's ids
    laws: list[DraftLaw] = field(default_factory=list)
    law_of: list[int] = field(default_factory=list)  # of each node; -1: chosen deterministically
    frontier: list[int] = field(default_factory=list)
    level: int = 0

    @property
    def can_grow(self) -> bool:
        """Whether the last level may have children."""
        return bool(self.frontier) and self.level < self.terms.depth and len(self.draft) < self.terms.nodes

    def first_feed(self, count: int) -> Feed:
        """Return the next count tokens of the text; scored if they are the last and the row may draft."""
        ids, committed = self.row.text.ids, self.row.lease.committed
        return Feed(
            row=self.row,
            index=self.index,
            pending=ids[committed : committed + count],
            context_len=committed,
            num_scored=int(self.terms.nodes > 0 and committed + count == len(ids)),
        )

    def stage(self, count: int) -> bool:
        """Set slots aside for count tokens of the text and for the draft; False if pages are short."""
        return self.row.stage(count + self.terms.num_slots)

    def feed(self) -> Feed:
        """Return what the model has to see to score the frontier."""
        ids = self.row.text.ids
        if self.terms.is_chain:
            *before, last = self.draft_tokens
            return Feed(
                row=self.row,
                index=self.index,
                pending=ints([last]),
                context_len=len(ids) + len(before),
                num_scored=1,
                drafted=tuple(before),
            )
        return Feed(
            row=self.row,
            index=self.index,
            pending=ids[-1:],
            context_len=len(ids) - 1,
            num_scored=0,
            nodes=ints(self.draft_tokens),
            parents=ints(self.draft.parents),
            depths=ints(self.draft.depths),
        )

    def note_fed(self) -> None:
        """Write down what a pass over feed() has put into the row's slots."""
        if self.terms.is_chain:
            self.row.written.append(self.draft_tokens[-1])
        else:
            self.row.nodes, self.row.parents = list(self.draft_tokens), list(self.draft.parents)

    def sprout(self, scores: Scores, place: int) -> None:
        """Add the first level; place is the scored position of the text's last token."""
        self._add_level(scores, [(ROOT, place)])

    def expand(self, scores: Scores, first: int) -> None:
        """Add a level below the frontier; first is the row's first scored position in a pass over feed()."""
        places = [first if self.terms.is_chain else first + node for node in self.frontier]
        self._add_level(scores, list(zip(self.frontier, places, strict=True)))

    def _add_level(self, scores: Scores, parents: Sequence[tuple[int, int]]) -> None:
        # Later levels get one node each at least, so that breadth does not eat up depth.
        room = max(self.terms.nodes - len(self.draft) - (self.terms.depth - self.level - 1), 1)
        terms = self.terms
        is_drawn = terms.is_sampled and not is_deterministic(terms.params, terms.heat)
        begin = len(self.draft)
        if is_drawn:
            self._draw_level(scores, parents, room)
        else:
            self._pick_level(scores, parents, room)
        self.frontier = list(range(begin, len(self.draft)))
        self.level += 1

    def _draw_level(self, scores: Scores, parents: Sequence[tuple[int, int]], room: int) -> None:
        """Draw children in order. How many there are does not depend on what is drawn (see verify/recursive.py)."""
        terms, begin = self.terms, len(self.draft)
        for parent, place in parents:
            count = min(terms.width(self.level), room - (len(self.draft) - begin))
            law = self._law(scores, place)
            if len(law.ids):
                self.laws.append(law)
            for guess in draws(law, count, self.noise, position=terms.start, first_node=len(self.draft)):
                self._add(guess, parent, 1.0, len(self.laws) - 1)

    def _pick_level(self, scores: Scores, parents: Sequence[tuple[int, int]], room: int) -> None:
        """Take the children that are most likely to stand, over all parents."""
        terms = self.terms
        width = terms.width(self.level)
        offers: list[tuple[float, int, Guess]] = []
        for parent, place in parents:
            law = self._law(scores, place)
            above = 1.0 if parent == ROOT else self.draft.confidence[parent]
            offers += [(above * guess.confidence, parent, guess) for guess in self._guesses(law, width)]
        offers.sort(key=lambda offer: -offer[0])
        for confidence, parent, guess in offers[:room]:
            if confidence >= terms.min_confidence:
                self._add(guess, parent, confidence, -1)

    def _guesses(self, law: DraftLaw, count: int) -> list[Guess]:
        terms = self.terms
        if is_deterministic(terms.params, terms.heat) or len(law.ids) <= 1:
            return best(law, count)
        return race(law, count, self.noise, position=terms.start + self.level)

    def _law(self, scores: Scores, place: int) -> DraftLaw:
        return draft_law(scores, place, self.terms.params, self.terms.heat, self.terms.to_target)

    def _add(self, guess: Guess, parent: int, confidence: float, law: int) -> None:
        self.draft.add(guess.token, parent, confidence, SOURCE)
        self.draft_tokens.append(guess.draft_token)
        self.law_of.append(law)


class Drawn(Protocol):
    """A draft some of whose nodes were drawn."""

    @property
    def laws(self) -> list[DraftLaw]:
        """Return the laws."""
        ...

    @property
    def law_of(self) -> list[int]:
        """Return each node's law, -1 where it was chosen deterministically."""
        ...


def laws_of(drafts: Sequence[Drawn | None]) -> DraftLaws | None:
    """Return the laws of all rows' nodes, None if no node was drawn."""
    present = [draft for draft in drafts if draft is not None]
    laws = [law for draft in present for law in draft.laws]
    if not laws:
        return None
    shifts = starts_of([len(draft.laws) for draft in present])
    of = [
        [law + int(shift) if law >= 0 else law for law in draft.law_of]
        for draft, shift in zip(present, shifts, strict=False)
    ]
    return DraftLaws(
        of=join(of),
        starts=starts_of([len(law.ids) for law in laws]),
        ids=join([law.ids for law in laws]),
        probabilities=np.concatenate([law.probabilities for law in laws]),
    )
