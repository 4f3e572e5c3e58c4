"""Fits a network to captured texts, step by step, so that a run that is killed goes on bit by bit as it would have.

All chance of a step follows from the seed and its number: which texts it takes, in which order, and where drafts start.
So a checkpoint holds weights, the optimiser's state and the number of steps done, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.train.examples import Example, Examples, Order
from paradraft.train.fit_plan import FitPlan
from paradraft.train.objectives import Losses
from paradraft.train.optimisers import Optimiser
from paradraft.train.progress import Report, Tally
from paradraft.train.rhythm import Rhythm
from paradraft.train.run_folder import ORIGIN, Checkpoint, History, read_checkpoint, write_checkpoint

__all__ = ["Fit", "Rhythm", "Task"]

Piece = TypeVar("Piece")


class Task(Protocol[Piece]):
    """What is fitted, and how: texts become pieces, pieces become losses."""

    scale: Tensor | None  # what taps are divided by

    @property
    def net(self) -> nn.Module:
        """Return the network."""
        ...

    def restore(self, state: Mapping[str, Tensor], scale: Tensor | None) -> None:
        """Take over the state of the same network, and the scale of the taps that it was fitted to."""
        ...

    def facts(self) -> dict[str, str]:
        """Return what a checkpoint has to say beside the weights."""
        ...

    def prepare(self, example: Example, place: int) -> Piece:
        """Make a piece of a text at a place of the order of all texts; all chance follows from the place."""
        ...

    def begin_step(self, pieces: Sequence[Piece], step: int) -> float:
        """Return the weight of all pieces together; their losses are divided by it."""
        ...

    def loss(self, piece: Piece, share: float) -> Losses | None:
        """Return the losses of a piece times share, None if there is nothing to learn."""
        ...

    def measure(self, examples: Sequence[Example]) -> float:
        """Return how good the network is on texts held out; more is better."""
        ...


class Fit(Generic[Piece]):
    """A fit under way."""

    def __init__(self, task: Task[Piece], examples: Examples, plan: FitPlan, *, folder: Path) -> None:
        self.task, self.step = task, 0
        self._origin: dict[str, str] = {}
        self._examples, self._plan, self._folder = examples, plan, folder
        self._order = Order(examples.fitted, plan.seed)
        self._optimiser = Optimiser(task.net, plan)

    def resume(self, *, may_grow: bool = False) -> bool:
        """Go on from the folder's checkpoint; return whether there is one.

        Raises AlignmentError if it was made by another plan or of other data (may_grow: more data or steps are fine).
        """
        checkpoint = read_checkpoint(self._folder)
        if checkpoint is None:
            return False
        self._require_same(checkpoint, may_grow)
        self.task.restore(checkpoint.net, checkpoint.scale)
        self._origin = {name: said for name, said in checkpoint.facts.items() if name == ORIGIN}
        self._optimiser.restore(checkpoint.optimiser)
        self.step = checkpoint.step
        return True

    def begin_with(self, state: Mapping[str, Tensor], scale: Tensor | None, *, origin: str) -> None:
        """Take over weights of the same network, which read taps divided by scale; steps and optimiser begin anew.

        origin: whose they are, as JSON; checkpoints keep it.
        """
        self.task.restore(state, scale)
        self._origin = {ORIGIN: origin}

    def run(self, rhythm: Rhythm, on_report: Callable[[Report], None]) -> None:
        """Take the remaining steps. Raises ModelError, and saves nothing, once a loss is not finite."""
        history = History(self._folder)
        history.begin(self.step)
        tally = Tally()
        while self.step < self._plan.steps:
            self._take_step(tally)
            is_last = self.step == self._plan.steps
            if self.step % rhythm.report == 0 or is_last:
                length = self.measure(rhythm.held_out) if self.step % rhythm.measure == 0 or is_last else None
                report = tally.report(self.step, self._plan, length)
                history.add(report.entry())
                on_report(report)
                tally = Tally()
            if self.step % rhythm.save == 0 or is_last:
                self.save()

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint = Checkpoint(
            step=self.step,
            net=self.task.net.state_dict(),
            optimiser=self._optimiser.state(),
            scale=self.task.scale,
            facts={**self.task.facts(), **self._origin, "plan": self._plan.to_json(), "data": self._data()},
        )
        write_checkpoint(self._folder, checkpoint)

    def measure(self, num_texts: int) -> float | None:
        """Return how good the network is on held-out texts, None if there are none."""
        chosen = self._examples.held_out[:num_texts].tolist()
        self.task.net.eval()
        try:
            return self.task.measure([self._examples.read(at) for at in chosen]) if chosen else None
        finally:
            self.task.net.train()

    def _take_step(self, tally: Tally) -> None:
        self.task.net.train()
        plan, first = self._plan, self.step * self._plan.sequences
        pieces = [self._piece(first + number) for number in range(plan.sequences)]
        weight, loss = self.task.begin_step(pieces, self.step), 0.0
        for piece in pieces:
            losses = self.task.loss(piece, 1.0 / max(weight, 1e-9))
            if losses is not None:
                losses.total.backward()  # type: ignore[no-untyped-call]
                loss += float(losses.total.detach())
                tally.add(losses)
        norm = self._optimiser.step(plan.rate(self.step))
        if not np.isfinite(loss) or not np.isfinite(norm):
            raise self._not_finite(first, loss)
        tally.weight += weight
        tally.norm = norm
        self.step += 1

    def _piece(self, place: int) -> Piece:
        return self.task.prepare(self._examples.read(self._order.at(place), longest=self._plan.longest), place)

    def _data(self) -> str:
        return hashlib.sha256(self._examples.fitted.tobytes()).hexdigest()

    def _require_same(self, checkpoint: Checkpoint, may_grow: bool) -> None:
        before = FitPlan.from_json(checkpoint.facts.get("plan", ""))
        allowed = {"steps", "schedule", "cooldown"} if may_grow else set()
        others = [name for name in self._plan.differences(before) if name not in allowed]
        if others:
            raise AlignmentError(
                f"{self._folder} was begun with another {', '.join(others)}.",
                remedy="Repeat the command that it was begun with, or choose another folder.",
            )
        if not may_grow and checkpoint.facts.get("data") != self._data():
            raise AlignmentError(
                f"{self._folder} was begun on other texts than the shards have now.",
                remedy="Give the same shards, or --grow to go on with what is there.",
            )

    def _not_finite(self, first: int, loss: float) -> ModelError:
        texts = [self._order.at(first + number) for number in range(self._plan.sequences)]
        return ModelError(
            f"The loss is {loss} at step {self.step}, with the texts {', '.join(map(str, texts))}.",
            remedy="Nothing was saved since the last checkpoint; go on from it with a smaller lr.",
        )
