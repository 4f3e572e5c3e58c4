"""What computes passes, as the configuration says."""

from __future__ import annotations

from paradraft.app.config import Config
from paradraft.models.build import Running


def running_of(config: Config) -> Running:
    """Return how the target and a draft model run."""
    return Running(dtype=config.dtype, device=config.device, runner=config.runner, threads=config.threads)
