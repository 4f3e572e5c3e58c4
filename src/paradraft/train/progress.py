"""What a fit says about itself while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from paradraft.train.fit_plan import FitPlan
from paradraft.train.objectives import Losses


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Where a fit stands."""

    step: int
    steps: int
    loss: float  # cross-entropy per counted slot, weighted, mean since the last report
    right: float  # share of first choices that hit, all tokens before taken from the text
    rate: float
    norm: float  # of the gradients
    slots_per_second: float
    length: float | None  # expected accepted length on texts held out, the target's own token included

    def entry(self) -> dict[str, float]:
        """Return the report as a line of the history."""
        entry = {"step": self.step, "loss": self.loss, "right": self.right, "rate": self.rate, "norm": self.norm}
        entry["slots_per_second"] = self.slots_per_second
        return entry if self.length is None else {**entry, "length": self.length}


class Tally:
    """Sums since the last report."""

    def __init__(self) -> None:
        self.begun, self.weight, self.norm = time.perf_counter(), 0.0, 0.0
        self._ce = self._right = self._slots = 0.0

    def add(self, losses: Losses) -> None:
        """Count a piece."""
        self._ce += float(losses.ce)
        self._right += float(losses.is_right.sum())
        self._slots += losses.num_slots

    def report(self, step: int, plan: FitPlan, length: float | None) -> Report:
        """Return what was counted, per slot and second."""
        return Report(
            step=step,
            steps=plan.steps,
            loss=self._ce / max(self.weight, 1e-9),
            right=self._right / max(self._slots, 1.0),
            rate=plan.lr * plan.rate(step - 1),
            norm=self.norm,
            slots_per_second=self._slots / max(time.perf_counter() - self.begun, 1e-9),
            length=length,
        )
