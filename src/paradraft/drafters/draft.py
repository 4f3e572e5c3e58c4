"""One row's draft tree while it grows, when to stop growing it, and how rows become a proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from paradraft.core.records import Plan, Proposal


@dataclass(frozen=True, slots=True)
class Price:
    """What drafting adds to a pass, as shares of a plain one: each node, and the first one besides."""

    node: float
    draft: float = 0.0


def price_of(plan: Plan, node_cost: float | None) -> Price:
    """Return the plan's price, or the one a drafter was given for good."""
    return Price(plan.node_cost, plan.draft_cost) if node_cost is None else Price(node_cost)


@dataclass(slots=True)
class Draft:
    """Nodes of one row, parents first."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    expected: float = 1.0  # tokens that a pass over this draft is expected to commit

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: int, parent: int, confidence: float, source: int) -> int:
        """Append a node and return its number; confidence counts its ancestors too."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(1 if parent < 0 else self.depths[parent] + 1)
        self.sources.append(source)
        self.confidence.append(confidence)
        self.expected += confidence
        return len(self.tokens) - 1

    def cost(self, price: Price) -> float:
        """Return what a pass over this draft costs, in plain passes."""
        return 1.0 + price.draft + price.node * len(self.tokens) if self.tokens else 1.0

    def pays(self, confidence: float, price: Price) -> bool:
        """Whether a node that stands with this probability raises the expected tokens per second.

        It does if it adds more tokens for its cost than the pass gives so far: c / node > expected / cost.
        """
        return confidence * (1.0 + price.draft + price.node * len(self.tokens)) > price.node * self.expected

    def if_worthwhile(self, price: Price) -> Draft:
        """Return this draft if it beats plain decoding as a whole, else an empty one."""
        return self if self.expected >= self.cost(price) else Draft()


def proposal_of(drafts: Sequence[Draft]) -> Proposal:
    """Return the proposal with one draft per row."""
    # One conversion for all integers: array calls would take longer than the drafts themselves.
    starts = [0, *accumulate([len(draft.tokens) for draft in drafts])]
    columns = [
        [token for draft in drafts for token in draft.tokens],
        [parent for draft in drafts for parent in draft.parents],
        [depth for draft in drafts for depth in draft.depths],
    ]
    tokens, parents, depths = np.array(columns, dtype=np.int32)
    return Proposal(
        starts=np.array(starts, dtype=np.int32),
        tokens=tokens,
        parents=parents,
        depths=depths,
        sources=np.array([source for draft in drafts for source in draft.sources], dtype=np.uint32),
        confidence=np.array([value for draft in drafts for value in draft.confidence], dtype=np.float32),
    )
