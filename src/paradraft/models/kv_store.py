"""Key and value tensors of a target, stored by slot; who may use which slot is decided in the kv package.

Legend: N key heads, S slots (pages times page size), D head size, T tokens. A run of slots is a view, never a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import IntArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Slots:
    """Slots in logical order: a run that starts at `first`, or any set named by `index`."""

    first: int
    count: int
    index: Tensor | None = None  # [count] int64; None for a run

    @staticmethod
    def of(slots: IntArray, device: torch.device) -> Slots:
        """Return these slot numbers [count] as a run if they are consecutive."""
        count = len(slots)
        first = int(slots[0]) if count else 0
        if count and (int(slots[-1]) - first != count - 1 or not (np.diff(slots) == 1).all()):
            return Slots(first=first, count=count, index=torch.from_numpy(slots.astype(np.int64)).to(device))
        return Slots(first=first, count=count)


@dataclass(frozen=True, kw_only=True, slots=True)
class KvShape:
    """Sizes of one token's keys and values in a model."""

    num_layers: int
    num_heads: int
    key_dim: int
    value_dim: int

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        """Return the bytes that one token takes in all layers."""
        return self.num_layers * self.num_heads * (self.key_dim + self.value_dim) * dtype.itemsize


Views = tuple[tuple[Tensor, Tensor], ...]  # keys and values, by layer


class LayerCache(Protocol):
    """Where layers of one pass put their keys and values and find those of the tokens before."""

    def append(self, layer: int, keys: Tensor, values: Tensor, slots: Slots) -> None:
        """Write keys [T, N, D] and values [T, N, D] of a layer to T slots."""
        ...

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, 1, count, D] of a layer: views of a run, gathered copies otherwise."""
        ...


class KvStore:
    """Owns the cache tensors of all layers.

    Memory is not cleared: a slot holds anything until it is appended to. Readers name only slots that their
    own row wrote, so stale values, which may be NaN, are skipped and never multiplied by zero.
    """

    def __init__(
        self, shape: KvShape, *, num_pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        head = (shape.num_layers, shape.num_heads, 1, num_pages * page_size)
        self.shape = shape
        self._all_keys = torch.empty((*head, shape.key_dim), dtype=dtype, device=device)
        self._all_values = torch.empty((*head, shape.value_dim), dtype=dtype, device=device)
        self._keys = self._all_keys.unbind(0)
        self._values = self._all_values.unbind(0)

    def append(self, layer: int, keys: Tensor, values: Tensor, slots: Slots) -> None:
        """Write keys [T, N, D] and values [T, N, D] of a layer to T slots."""
        for store, fresh in ((self._keys[layer], keys), (self._values[layer], values)):
            lines = fresh.transpose(0, 1).unsqueeze(1)
            if slots.index is None:
                store.narrow(2, slots.first, slots.count).copy_(lines)
            else:
                store.index_copy_(2, slots.index, lines)

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, 1, count, D] of a layer: views of a run, gathered copies otherwise."""
        keys, values = self._keys[layer], self._values[layer]
        if slots.index is None:
            return keys.narrow(2, slots.first, slots.count), values.narrow(2, slots.first, slots.count)
        return keys.index_select(2, slots.index), values.index_select(2, slots.index)

    def run(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return views of the keys and values of a run in all layers, [layers, N, 1, count, D]."""
        return (
            self._all_keys.narrow(3, slots.first, slots.count),
            self._all_values.narrow(3, slots.first, slots.count),
        )

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy slots in every layer; all sources are read before any destination is written."""
        if not len(sources):
            return
        device = self._all_keys.device
        taken = torch.from_numpy(sources.astype(np.int64)).to(device)
        given = torch.from_numpy(destinations.astype(np.int64)).to(device)
        for store in (self._all_keys, self._all_values):
            store.index_copy_(3, given, store.index_select(3, taken))

    def close(self) -> None:
        """Drop the tensors."""
        self._keys = self._values = ()
        self._all_keys = self._all_values = torch.empty(0)


class KvView:
    """The store during one pass: views of runs are made for all layers at once, which saves two calls in each."""

    def __init__(self, store: KvStore, *, fed: Slots, seen: Iterable[Slots]) -> None:
        self._store = store
        self._targets = None if fed.index is not None else _targets(store, fed)
        self._seen: Mapping[Slots, Views] = {run: _views(store, run) for run in seen if run.index is None}

    def append(self, layer: int, keys: Tensor, values: Tensor, slots: Slots) -> None:
        """Write keys [T, N, D] and values [T, N, D] of a layer to the slots the pass feeds."""
        if self._targets is None:
            self._store.append(layer, keys, values, slots)
            return
        key_target, value_target = self._targets[layer]
        key_target.copy_(keys)
        value_target.copy_(values)

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, 1, count, D] of a layer."""
        views = self._seen.get(slots)
        return self._store.read(layer, slots) if views is None else views[layer]


def _views(store: KvStore, run: Slots) -> Views:
    keys, values = store.run(run)
    return tuple(zip(keys.unbind(0), values.unbind(0), strict=True))


def _targets(store: KvStore, run: Slots) -> Views:
    """Return as _views, but [count, N, D] as layers produce them."""
    keys, values = (part.squeeze(2).transpose(1, 2) for part in store.run(run))
    return tuple(zip(keys.unbind(0), values.unbind(0), strict=True))
