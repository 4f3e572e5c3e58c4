"""How long and how hard a drafter is fitted."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from paradraft.core.errors import ConfigError
from paradraft.train.objectives import Objective

OPTIMISERS = ("adamw", "muon")
DEPTHS = ("full", "mixed", "dropped")
SCHEDULES = ("cosine", "linear-end", "constant")
_MIXED = ((0.4, 2), (0.7, 3), (1.0, 0))  # cumulative shares of the work, and slots; 0: the whole block


@dataclass(frozen=True, kw_only=True, slots=True)
class FitPlan:
    """Everything that decides the weights that come out, apart from the data and the network at the start.

    sequences x anchors drafts are made in each step. schedule: cosine falls from the warm-up to the end, linear-end
    stays and falls in the last `cooldown` of the steps, constant stays. noise: of the taps, as a share of their size.
    depths: full drafts whole blocks; mixed draws for each text how deep its blocks are and takes the more anchors the
    shallower they are, so that the first slots, on which everything behind them depends, get most of the work. dropped
    is P-EAGLE's own way: ever fewer anchors have a slot at the deeper places, and all slots count alike.
    head_rows: rows of the head that a step uses, drawn beside those it needs; 0: all. Cross-entropy alone can do so.
    """

    steps: int
    sequences: int = 8
    anchors: int = 64
    longest: int = 1024  # tokens of a text
    lr: float = 1e-3
    warmup: float = 0.04  # share of the steps
    schedule: str = "cosine"
    cooldown: float = 0.25
    final: float = 0.05  # share of lr at the end
    optimiser: str = "adamw"
    weight_decay: float = 0.0
    clip: float = 1.0
    noise: float = 0.0
    skip_loops: bool = False
    depths: str = "full"
    head_rows: int = 0
    dtype: str = "fp32"
    seed: int = 0
    hold_out: int = 40  # every so many-th text is held out
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        """Raise ConfigError for a value that cannot be used."""
        for name in ("steps", "sequences", "anchors"):
            self._require(name, getattr(self, name) >= 1, "Use at least 1.")
        self._require("longest", self.longest >= 8, "Use at least 8.")
        for name in ("warmup", "cooldown", "final"):
            self._require(name, 0.0 <= getattr(self, name) <= 1.0, "Use a share from 0 to 1.")
        for name in ("lr", "clip"):
            self._require(name, 0.0 < getattr(self, name) < math.inf, "Use a number above 0.")
        self._require("head_rows", self.head_rows >= 0, "Use 0 for all, or some thousands.")
        is_whole = not (self.head_rows and self.objective.needs_teacher)
        self._require("head_rows", is_whole, "Use 0 with a loss that compares whole laws.")
        for name in ("weight_decay", "noise"):
            self._require(name, 0.0 <= getattr(self, name) < math.inf, "Use a number of at least 0.")
        self._require("seed", self.seed >= 0, "Use a whole number of at least 0.")
        self._require("hold_out", self.hold_out == 0 or self.hold_out >= 2, "Use 0 for none, or at least 2.")
        self._require("optimiser", self.optimiser in OPTIMISERS, f"Choose one of {', '.join(OPTIMISERS)}.")
        self._require("schedule", self.schedule in SCHEDULES, f"Choose one of {', '.join(SCHEDULES)}.")
        self._require("depths", self.depths in DEPTHS, f"Choose one of {', '.join(DEPTHS)}.")
        self._require("dtype", self.dtype in ("fp32", "bf16"), "Choose fp32 or bf16.")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0, as a share of lr."""
        warm = max(round(self.warmup * self.steps), 1)
        if step < warm:
            return (step + 1) / warm
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "linear-end":
            start = self.steps - max(round(self.cooldown * self.steps), 1)
            done = max(step - start, 0) / max(self.steps - start, 1)
            return 1.0 - (1.0 - self.final) * done
        done = (step - warm) / max(self.steps - warm, 1)
        return self.final + (1.0 - self.final) * 0.5 * (1.0 + math.cos(math.pi * done))

    def depth(self, draw: float, block_size: int) -> int:
        """Return how many slots a text's blocks have, for a number drawn from [0, 1)."""
        if self.depths != "mixed":
            return block_size
        return min(next(depth for share, depth in _MIXED if draw < share) or block_size, block_size)

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> FitPlan:
        """Return a plan that to_json wrote; raise ConfigError if it is another version's."""
        try:
            record: dict[str, Any] = json.loads(text)
            return FitPlan(**{**record, "objective": Objective(**record["objective"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"The plan of this run cannot be read ({error}).", remedy="Begin a new run.") from error

    def differences(self, other: FitPlan) -> list[str]:
        """Return the names of the values in which another plan differs."""
        return [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]

    def _require(self, name: str, is_right: bool, remedy: str) -> None:
        if not is_right:
            raise ConfigError(f"{name}={getattr(self, name)!r} cannot be used.", remedy=remedy)
