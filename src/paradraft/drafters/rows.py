"""What a drafter keeps for each row, safe against a row number that another request took over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.records import Batch, Plan, RowSampling
from paradraft.core.requests import may_draft

State = TypeVar("State")


def is_drafting(batch: Batch, index: int) -> bool:
    """Whether the row's request lets anybody draft for it; if not, a drafter need not even read along."""
    return may_draft(batch.sampling[index].params)


def may_use(batch: Batch, index: int, sources: Sequence[str]) -> bool:
    """Whether the row's request lets any of these sources draft."""
    params = batch.sampling[index].params
    return not params.is_choosy or any(name in params.draft_from for name in sources)


def planned_for(plan: Plan, wanted: Sequence[bool]) -> Plan:
    """Return the plan with nodes for these rows only."""
    if all(wanted):
        return plan
    mask = np.array(wanted)
    return replace(plan, num_nodes=np.where(mask, plan.num_nodes, 0), depth=np.where(mask, plan.depth, 0))


@dataclass(slots=True)
class _Entry(Generic[State]):
    state: State
    sampling: RowSampling
    num_seen: int
    last_seen: int


class RowStates(Generic[State]):
    """One state per row, made when the row first appears.

    A request is known by its sampling record and by its history, which only grows. So an entry that was never
    forgotten is still not taken for another request's, unless the two are alike as far as the entry goes.
    """

    def __init__(self, make: Callable[[Batch, int], State], drop: Callable[[State], None] = lambda _: None) -> None:
        """Build states with make(batch, index); drop is told of every state that goes."""
        self._make = make
        self._drop = drop
        self._entries: dict[int, _Entry[State]] = {}

    def of(self, batch: Batch, index: int) -> State:
        """Return the state of the row at this index of the batch."""
        row = int(batch.rows[index])
        sampling, history = batch.sampling[index], batch.history[index]
        entry = self._entries.get(row)
        if entry is not None and not _is_same(entry, sampling, history):
            self._remove(row)
            entry = None
        if entry is None:
            entry = _Entry(state=self._make(batch, index), sampling=sampling, num_seen=0, last_seen=-1)
            self._entries[row] = entry
        entry.num_seen = len(history)
        entry.last_seen = int(history[-1])
        return entry.state

    def forget(self, rows: IntArray) -> None:
        """Drop the states of these rows."""
        for row in rows.tolist():
            self._remove(row)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[State]:
        return iter([entry.state for entry in self._entries.values()])

    def _remove(self, row: int) -> None:
        entry = self._entries.pop(row, None)
        if entry is not None:
            self._drop(entry.state)


def _is_same(entry: _Entry[State], sampling: RowSampling, history: IntArray) -> bool:
    if len(history) < entry.num_seen or int(history[entry.num_seen - 1]) != entry.last_seen:
        return False
    known = entry.sampling
    return known is sampling or _identity(known) == _identity(sampling)


def _identity(sampling: RowSampling) -> tuple[int, int, int, str]:
    return sampling.seed, sampling.choice, sampling.prompt_len, sampling.tenant
