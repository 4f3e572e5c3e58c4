"""Weights of a network laid out for the machine that serves them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paradraft.models.linear import GatedPair, Linear, choose_kernels
from paradraft.models.norms import RmsNorm
from paradraft.nets.networks.parts import Norm
from paradraft.nets.serving.place import ServingPlace


class Placed:
    """Copies weights to a place; those that share an input can be joined to one product."""

    def __init__(self, place: ServingPlace) -> None:
        self._place = place
        self._kernels = choose_kernels(place.dtype, place.device)

    def weight(self, *parts: Tensor) -> Tensor:
        """Return weights joined along their outputs, free of training."""
        joined = parts[0] if len(parts) == 1 else torch.cat(parts)
        return joined.detach().to(device=self._place.device, dtype=self._place.dtype).contiguous()

    def linear(self, *layers: nn.Linear) -> Linear:
        """Return layers without bias joined to one."""
        return self._kernels.layer(self.weight(*(layer.weight for layer in layers)), None)

    def table(self, weight: Tensor) -> Linear:
        """Return the layer of a bare weight."""
        return self._kernels.layer(self.weight(weight), None)

    def gated(self, gate: nn.Linear, up: nn.Linear) -> GatedPair:
        """Return a gated pair without bias."""
        return self._kernels.gated((self.weight(gate.weight), None), (self.weight(up.weight), None))

    def norm(self, norm: Norm) -> RmsNorm:
        """Return a norm."""
        return self.rms_norm(norm.weight, norm.eps)

    def rms_norm(self, weight: Tensor, eps: float) -> RmsNorm:
        """Return the norm of a bare weight."""
        return RmsNorm(self.weight(weight), eps)
