"""How many processor threads a pass may use."""

from __future__ import annotations

import os
import sys

from paradraft.core.cores import usable_cores


def thread_count(count: int | None) -> int:
    """Return the threads of a native pass: the given number, else OMP_NUM_THREADS as for torch, else one per core."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if count is not None:
        return count
    return int(stated) if stated.isdecimal() and int(stated) > 0 else usable_cores()


def limit_torch(count: int | None) -> None:
    """Do as use_threads where torch is in use; a process that does without it keeps doing so."""
    if "torch" in sys.modules:
        use_threads(count)


def use_threads(count: int | None) -> None:
    """Set the number of threads of torch's passes in this process; None keeps the default of one per core."""
    if count is not None:
        import torch  # whoever leaves the number open may do without torch

        torch.set_num_threads(count)
