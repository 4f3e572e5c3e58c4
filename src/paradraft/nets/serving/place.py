"""Where a network serves, and arrays on their way there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingPlace:
    """Where a network runs, in which type it counts, and how large its cache is."""

    dtype: torch.dtype
    device: torch.device
    num_pages: int
    page_size: int


def as_tensor(values: IntArray | FloatArray, device: torch.device) -> Tensor:
    """Return an array on the device, whole numbers as int64."""
    wide = values.astype(np.int64) if values.dtype == np.int32 else values
    return torch.from_numpy(np.ascontiguousarray(wide)).to(device)
