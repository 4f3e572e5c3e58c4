"""How many processor threads a pass may use."""

from __future__ import annotations

import torch


def use_threads(count: int | None) -> None:
    """Set the number of threads of this process's passes; None keeps the default of one per core."""
    if count is not None:
        torch.set_num_threads(count)
