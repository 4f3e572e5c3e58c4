"""One row of a proposal, as the rules read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from paradraft.core.errors import ProtocolError
from paradraft.core.records import DraftLaws, Proposal
from paradraft.verify.law import Law

ROOT = -1  # the row's last pending token: the parent of the first draft nodes


class Shape(StrEnum):
    """What a rule can walk."""

    CHAIN = "chain"
    TREE = "tree"


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """The accepted nodes from the root down, and the token that follows them."""

    path: tuple[int, ...]
    token: int


class RowTree:
    """The draft nodes of one row. `start` is the position of the first token to be chosen."""

    def __init__(self, proposal: Proposal, index: int, start: int) -> None:
        """View the nodes of the row at this index of the batch."""
        low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
        self.start = start
        self.tokens: list[int] = proposal.tokens[low:high].tolist()
        self._parents: list[int] = proposal.parents[low:high].tolist()
        self._laws = proposal.laws
        self._low = low
        self._children: dict[int, list[int]] = {}
        for node, parent in enumerate(self._parents):
            if not ROOT <= parent < node:
                raise ProtocolError(
                    f"Draft node {node} has parent {parent}.", remedy="Parents come before their children."
                )
            self._children.setdefault(parent, []).append(node)

    @property
    def num_nodes(self) -> int:
        """Return the number of draft nodes."""
        return len(self.tokens)

    def children(self, node: int) -> Sequence[int]:
        """Return the children of a node (or ROOT) in the order they were drafted."""
        return self._children.get(node, ())

    def child(self, node: int, token: int) -> int | None:
        """Return the child of a node that holds this token, if there is one."""
        for child in self.children(node):
            if self.tokens[child] == token:
                return child
        return None

    def follow(self, choose: Callable[[int, int], int]) -> Walk:
        """Descend as long as the chosen token was drafted; choose(node, position) gives the token behind a node."""
        path: list[int] = []
        node: int | None = ROOT
        while node is not None:
            token = choose(node, self.start + len(path))
            node = self.child(node, token)
            if node is not None:
                path.append(node)
        return Walk(path=tuple(path), token=token)

    def path_tokens(self, node: int) -> list[int]:
        """Return the tokens from the first draft level down to the node; none for ROOT."""
        tokens = []
        while node != ROOT:
            tokens.append(self.tokens[node])
            node = self._parents[node]
        return tokens[::-1]

    def chain(self, rule: str) -> list[int]:
        """Return the nodes of a single path from the root; raise ProtocolError if the tree branches."""
        if any(len(children) > 1 for children in self._children.values()):
            raise ProtocolError(
                f"The rule {rule!r} checks one path, but the proposal branches.",
                remedy="Use a rule whose shape is 'tree', or a drafter that proposes chains.",
            )
        return list(range(self.num_nodes))

    def draft_law(self, node: int) -> Law:
        """Return the law the node was drawn from before its elder siblings are ruled out.

        A node chosen deterministically has the law of a point: its token, always.
        """
        of = ROOT if self._laws is None else int(self._laws.of[self._low + node])
        return Law.point(self.tokens[node]) if of < 0 or self._laws is None else _law_at(self._laws, of)


def _law_at(laws: DraftLaws, index: int) -> Law:
    part = slice(int(laws.starts[index]), int(laws.starts[index + 1]))
    ids, probabilities = laws.ids[part], laws.probabilities[part]
    if not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        ids, probabilities = ids[order], probabilities[order]
    total = float(probabilities.sum())
    if not 0.0 < total < np.inf:
        raise ProtocolError(
            f"A draft law sums to {total}.", remedy="Report the probabilities that the nodes were drawn from."
        )
    return Law(ids=ids, probabilities=probabilities / total)
