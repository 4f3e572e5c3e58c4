"""Writes out the batches of a pass by hand, for tests of targets and drafters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.records import Batch, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams

NO_TOKENS: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row that knows `tokens`, of which the first `cached` are in the cache, and its pages."""

    tokens: Sequence[int]
    cached: int = 0
    pages: Sequence[int]
    num_scored: int = 1


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Draft nodes of a row: tokens and, for each, the index of its parent (-1: the last pending token)."""

    tokens: Sequence[int] = NO_TOKENS
    parents: Sequence[int] = NO_TOKENS

    @property
    def depths(self) -> list[int]:
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths

    def path_to(self, node: int) -> list[int]:
        """Return the nodes from the root to this one."""
        parent = self.parents[node]
        return [*(self.path_to(parent) if parent >= 0 else []), node]


def batch_of(rows: Sequence[Row], page_size: int) -> Batch:
    """Return the batch that feeds each row's tokens that are not cached."""
    return Batch(
        rows=ints(np.arange(len(rows))),
        starts=starts_of([len(row.tokens) - row.cached for row in rows]),
        tokens=join([ints(row.tokens[row.cached :]) for row in rows]),
        context_len=ints([row.cached for row in rows]),
        num_scored=ints([row.num_scored for row in rows]),
        page_starts=starts_of([len(row.pages) for row in rows]),
        pages=join([ints(row.pages) for row in rows]),
        page_size=page_size,
        history=tuple(ints(row.tokens) for row in rows),
        sampling=tuple(sampling_of(row) for row in rows),
    )


def sampling_of(row: Row) -> RowSampling:
    """Return greedy sampling for a row."""
    params = SamplingParams(temperature=0.0)
    return RowSampling(params=params, seed=0, choice=0, prompt_len=len(row.tokens), stop_ids=())


def proposal_of(trees: Sequence[Tree]) -> Proposal:
    """Return the proposal of these trees, one for each row."""
    return Proposal(
        starts=starts_of([len(tree.tokens) for tree in trees]),
        tokens=join([ints(tree.tokens) for tree in trees]),
        parents=join([ints(tree.parents) for tree in trees]),
        depths=join([ints(tree.depths) for tree in trees]),
        sources=np.ones(sum(len(tree.tokens) for tree in trees), dtype=np.uint32),
    )


def slots_of(pages: Sequence[int], page_size: int, logical: Sequence[int]) -> IntArray:
    """Return the slots of logical indices."""
    return ints([pages[index // page_size] * page_size + index % page_size for index in logical])
