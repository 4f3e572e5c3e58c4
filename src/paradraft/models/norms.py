"""Root-mean-square norms, always computed in fp32 or wider. Legend: T tokens, C channels."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

_FEW_TOKENS = 16


class RmsNorm:
    """Divides each line by its root mean square and multiplies by a weight."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight = weight
        self._eps = eps
        self._shape = (weight.shape[0],)
        self._both_weights = torch.stack([weight, weight])
        self._signs = torch.tensor([[1.0], [-1.0]], dtype=weight.dtype, device=weight.device)
        self._is_cpu = weight.device.type == "cpu"

    def __call__(self, lines: Tensor) -> Tensor:
        """Return the norm of lines [..., C].

        On a CPU torch composes this norm of eight operators, while layer norm is one. A line and its own negative
        together have mean 0 and, as variance, the mean square, so for few tokens that takes half the time.
        """
        if not self._is_cpu or lines.shape[0] > _FEW_TOKENS:
            return functional.rms_norm(lines, self._shape, self._weight, self._eps)
        mirrored = lines.unsqueeze(-2) * self._signs
        normed = torch.layer_norm(mirrored, self._both_weights.shape, self._both_weights, None, self._eps)
        return normed.select(-2, 0)
