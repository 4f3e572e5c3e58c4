"""What goes wrong in drafters, as the engine and those who watch it see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterFaults:
    """What went wrong in a drafter and its sources since the start."""

    by_kind: Mapping[str, int] = field(default_factory=dict)  # an exception's class, or what a proposal got wrong
    num_pauses: int = 0  # times that one was left out for a while
    is_resting: bool = False  # whether the drafter as a whole is left out now


@runtime_checkable
class Walled(Protocol):
    """A drafter whose faults, and those of its sources, are caught before they reach the engine and counted."""

    @property
    def num_faults(self) -> int:
        """Return how many there were; asked in every step without a draft, so it must be cheap."""
        ...

    def faults(self) -> DrafterFaults:
        """Return all that was counted."""
        ...
