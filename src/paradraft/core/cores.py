"""How many processor cores this process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """Return the cores this process may use: its affinity, cut to its container's quota. `root` holds sys."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        return max(1, min(cores, round(int(quota) / int(period))))
    return cores


def _read(path: Path) -> str:
    """Return the text of a file, empty where the system has none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
