"""Hands the tensors of a decoder out in one number format, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.models.decoder_names import check_shape, not_finite


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightReader:
    """Hands out checked tensors in one dtype on one device."""

    tensors: Mapping[str, Tensor]
    shapes: Mapping[str, tuple[int, ...]]
    dtype: torch.dtype
    device: torch.device

    def read(self, name: str) -> Tensor:
        """Return a tensor; raise ModelError if it has another shape or values that are not finite."""
        tensor = self.tensors[name]
        check_shape(name, tuple(tensor.shape), self.shapes[name])
        converted = tensor.to(device=self.device, dtype=self.dtype).contiguous()
        least, most = torch.aminmax(converted)
        if not (torch.isfinite(least) and torch.isfinite(most)):
            raise not_finite(name, str(self.dtype).removeprefix("torch."))
        return converted

    def read_joined(self, names: list[str]) -> Tensor:
        """Return tensors joined along their outputs."""
        return torch.cat([self.read(name) for name in names])

    def read_optional(self, names: list[str]) -> Tensor | None:
        """Return tensors joined, or None if the model has none of them."""
        return self.read_joined(names) if names[0] in self.shapes else None
