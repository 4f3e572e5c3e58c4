"""How steady acceptance is: its deviation over the last minute (ARSD)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

SLOT_SECONDS = 5.0
NUM_SLOTS = 12  # a minute
MIN_TRIED = 200  # steps into drafts that a slot's rate is read from: with fewer, chance alone looks like unrest
MIN_SLOTS = 3


@dataclass(slots=True)
class _Slot:
    number: int  # time by SLOT_SECONDS
    accepted: int = 0
    tried: int = 0


class AcceptanceWindow:
    """Acceptance along paths in slots of SLOT_SECONDS, for a minute."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque(maxlen=NUM_SLOTS)

    def note(self, accepted: int, refused: int, now: float) -> None:
        """Count steps into drafts that found the right node, and those that did not."""
        number = int(now // SLOT_SECONDS)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        slot = self._slots[-1]
        slot.accepted += accepted
        slot.tried += accepted + refused

    def deviation(self, now: float) -> float:
        """Return the standard deviation of the slots' rates, weighted by what they tried; NaN while too few tell."""
        oldest = int(now // SLOT_SECONDS) - NUM_SLOTS
        slots = [slot for slot in self._slots if slot.number > oldest and slot.tried >= MIN_TRIED]
        if len(slots) < MIN_SLOTS:
            return math.nan
        tried = sum(slot.tried for slot in slots)
        mean = sum(slot.accepted for slot in slots) / tried
        return math.sqrt(sum(slot.tried * (slot.accepted / slot.tried - mean) ** 2 for slot in slots) / tried)
