"""Which keys each fed token of a row may see: its past, its ancestors in the draft tree, and no further than a window.

Legend: M fed tokens of the row (pending, then nodes), L keys of the row (context, then fed tokens).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import BoolArray, IntArray

Window = int | None  # how many positions back a token sees, itself included; None: all


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowTokens:
    """The fed tokens of a row. Their logical indices are context .. context + M."""

    context: int
    num_pending: int
    parents: IntArray  # of the nodes; -1: the last pending token
    is_chain: bool
    positions: IntArray  # [M]
    last_position: int

    @staticmethod
    def of(*, context: int, num_pending: int, parents: IntArray, depths: IntArray, is_chain: bool) -> RowTokens:
        """Work out the positions: a node's is that of its depth."""
        known = context + num_pending
        pending = np.arange(context, known, dtype=np.int32)
        has_nodes = len(depths) > 0
        return RowTokens(
            context=context,
            num_pending=num_pending,
            parents=parents,
            is_chain=is_chain,
            positions=np.concatenate([pending, depths + np.int32(known - 1)]) if has_nodes else pending,
            last_position=known - 1 + (int(depths.max()) if has_nodes else 0),
        )

    @property
    def num_fed(self) -> int:
        """Return M."""
        return len(self.positions)

    @property
    def num_keys(self) -> int:
        """Return L."""
        return self.context + len(self.positions)

    def first_key(self, window: Window) -> int:
        """Return the logical index of the first key that any fed token sees."""
        return 0 if window is None else max(0, self.context - window + 1)

    def is_cut(self, window: Window) -> bool:
        """Whether the window hides a key behind first_key from some fed token."""
        return window is not None and self.last_position - self.first_key(window) >= window


def visible_keys(row: RowTokens, window: Window) -> BoolArray:
    """Return which keys first_key .. L each fed token of the row sees, [M, L - first_key]."""
    first, known = row.first_key(window), row.context + row.num_pending
    logical = np.arange(first, row.num_keys, dtype=np.int32)
    visible = logical[None, :] <= logical[row.context - first :, None]
    if not row.is_chain:
        visible[row.num_pending :, known - first :] = _ancestors(row.parents)
    if window is not None and row.is_cut(window):
        key_positions = np.concatenate([logical[: known - first], row.positions[row.num_pending :]])
        visible &= row.positions[:, None] - key_positions[None, :] < window
    return visible


def _ancestors(parents: IntArray) -> BoolArray:
    """Return for each node its ancestors and itself, [nodes, nodes]; parents come before children."""
    seen = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            seen[node] |= seen[parent]
    return seen
