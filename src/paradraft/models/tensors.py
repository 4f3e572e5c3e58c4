"""Stored weights as tensors of torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from paradraft.models.stored import StoredTensor
from paradraft.models.weight_map import WeightMap


class TensorMap(Mapping[str, Tensor]):
    """The weights of a model, each read when it is asked for, in the type it is stored in; see WeightMap."""

    def __init__(self, weights: WeightMap) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Tensor:
        """Read a tensor; raise what WeightMap raises."""
        return tensor_of(self._weights[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._weights)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._weights)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a tensor; does not read it."""
        return name in self._weights


def tensor_of(stored: StoredTensor) -> Tensor:
    """Return a tensor that shares the stored values."""
    if stored.is_bf16:
        return torch.from_numpy(stored.values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(stored.values)


def stored_of(tensor: Tensor) -> StoredTensor:
    """Return a tensor of the processor's memory as it would be stored; they share the values."""
    dense = tensor.detach().contiguous()
    if dense.dtype == torch.bfloat16:
        return StoredTensor(values=dense.view(torch.int16).numpy().view(np.uint16), is_bf16=True)
    return StoredTensor(values=dense.numpy())
