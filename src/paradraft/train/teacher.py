"""The target's own law, from what its last layer put out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Teacher:
    """The target's final norm, which turns its last layer into what its head reads."""

    norm: Tensor  # [d]
    eps: float

    def logits(self, last: Tensor, head: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the target's logits [..., Vd] for outputs of its last layer [..., d]; head [Vd, d] are rows of its.

        dtype: of what is multiplied, and of the logits.
        """
        read = torch.nn.functional.rms_norm(last, self.norm.shape, self.norm, self.eps)
        return read.to(dtype) @ head.to(dtype).T
