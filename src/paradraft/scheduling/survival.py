"""Confidence of draft nodes as chances: of a node if its parent stands, and of a whole path.

A family is a node's children. Their chances and the rest, which belongs to tokens that were not drafted, sum to 1.
A temperature T per depth sharpens or flattens a family: each share becomes share ** (1 / T), and they are divided by
their new sum. For a single child this is sigmoid(logit(chance) / T), the scaling of DSpark (arXiv 2607.05147).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import BoolArray, DoubleArray
from paradraft.core.records import Proposal

LEAST_REST = 1e-6  # no family is certain, whatever its drafter says
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Families:
    """Draft nodes of many rows as families, [N]; parents come before children."""

    chances: DoubleArray  # of a node if its parent stands
    depths: Indices  # from 1
    parents: Indices  # index of the parent among these nodes, -1 at the top
    families: Indices  # number of the node's family; numbers may be left out
    stood: BoolArray  # whether the node was accepted

    def __len__(self) -> int:
        return len(self.chances)


def families_of(proposal: Proposal, stood: BoolArray | None = None) -> Families:
    """Return the nodes of a proposal that has confidences; stood [N] tells which were accepted (None: none yet)."""
    assert proposal.confidence is not None
    counts = np.diff(proposal.starts)
    firsts = np.repeat(proposal.starts[:-1], counts).astype(np.intp)
    inner = proposal.parents.astype(np.intp)
    parents = np.where(inner < 0, -1, inner + firsts)
    rows = np.repeat(np.arange(len(counts)), counts)
    confidence = proposal.confidence.astype(np.float64)
    above = np.where(parents < 0, 1.0, confidence[parents])
    chances = np.divide(confidence, above, out=np.zeros(len(confidence)), where=above > 0.0)
    # The family of top nodes is their row's, behind those of all nodes.
    names = np.where(parents < 0, len(parents) + rows, parents)
    return Families(
        chances=np.clip(np.nan_to_num(chances), 0.0, 1.0),
        depths=proposal.depths.astype(np.intp),
        parents=parents,
        families=names,
        stood=np.zeros(len(parents), dtype=np.bool_) if stood is None else stood,
    )


def survival_of(proposal: Proposal, temperatures: Sequence[float]) -> list[float]:
    """Return what `survival` does for a proposal with confidences, N numbers; in plain Python, which is faster here."""
    assert proposal.confidence is not None
    confidence: list[float] = proposal.confidence.tolist()
    parents: list[int] = proposal.parents.tolist()
    depths: list[int] = proposal.depths.tolist()
    starts: list[int] = proposal.starts.tolist()
    found: list[float] = []
    for low, high in pairwise(starts):
        found += _row_survival(confidence[low:high], parents[low:high], depths[low:high], temperatures)
    return found


def _row_survival(
    confidence: list[float], parents: list[int], depths: list[int], temperatures: Sequence[float]
) -> list[float]:
    """Return the survival of one row's nodes; entry parent + 1 of a list by family belongs to a node's children."""
    count = len(confidence)
    chances = [0.0] * count
    named = [0.0] * (count + 1)
    for node, parent in enumerate(parents):
        over = 1.0 if parent < 0 else confidence[parent]
        chances[node] = min(confidence[node] / over, 1.0) if over > 0.0 else 0.0
        named[parent + 1] += chances[node]
    powers = [1.0 / temperature_at(temperatures, depth) for depth in depths]
    shares = [chance**power for chance, power in zip(chances, powers, strict=True)]
    sums = [0.0] * (count + 1)
    for node, parent in enumerate(parents):
        if not sums[parent + 1]:
            sums[parent + 1] = max(1.0 - named[parent + 1], LEAST_REST) ** powers[node]
        sums[parent + 1] += shares[node]
    found = [0.0] * count
    for node, parent in enumerate(parents):
        found[node] = (1.0 if parent < 0 else found[parent]) * shares[node] / sums[parent + 1]
    return found


def scaled(chances: DoubleArray, families: Indices, temperature: float) -> DoubleArray:
    """Return the chances [n] at a temperature; families [n] groups those that share a parent."""
    rest = np.maximum(1.0 - np.bincount(families, weights=chances), LEAST_REST)
    power = 1.0 / temperature
    shares = chances**power
    sums = np.bincount(families, weights=shares) + rest**power
    found: DoubleArray = shares / sums[families]
    return found


def survival(nodes: Families, temperatures: Sequence[float]) -> DoubleArray:
    """Return the chance of each node to stand with all its ancestors, [N], never above its parent's.

    temperatures are by depth from 1; the last one serves deeper nodes, none at all leaves the chances as they are.
    """
    found = np.zeros(len(nodes))
    for depth in range(1, int(nodes.depths.max(initial=0)) + 1):
        level = np.flatnonzero(nodes.depths == depth)
        found[level] = above(found, nodes.parents[level]) * at_level(nodes, level, temperature_at(temperatures, depth))
    return found


def temperature_at(temperatures: Sequence[float], depth: int) -> float:
    """Return the temperature of a depth from 1."""
    return temperatures[min(depth, len(temperatures)) - 1] if temperatures else 1.0


def at_level(nodes: Families, level: Indices, temperature: float) -> DoubleArray:
    """Return the scaled chances of the nodes of one level, which holds whole families."""
    return scaled(nodes.chances[level], renumbered(nodes.families[level]), temperature)


def renumbered(families: Indices) -> Indices:
    """Return the same families under numbers without gaps."""
    found: Indices = np.unique(families, return_inverse=True)[1].reshape(-1)
    return found


def above(found: DoubleArray, parents: Indices) -> DoubleArray:
    """Return the survival of the parents, 1 at the top."""
    return np.where(parents < 0, 1.0, found[parents])
