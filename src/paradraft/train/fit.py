"""Fits a drafter to captured texts, step by step, so that a run that is killed goes on bit by bit as it would have.

All chance of a step follows from the seed and its number: which texts it takes, in which order, and where drafts start.
So a checkpoint holds weights, the optimiser's state and the number of steps done, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.nets.net import Net
from paradraft.train.anchors import draw_anchors
from paradraft.train.batches import Slots, draft_labels, make_slots, move
from paradraft.train.examples import Example, Examples, Order
from paradraft.train.fit_plan import FitPlan
from paradraft.train.losses import Teacher, batch_loss
from paradraft.train.objectives import slot_weights
from paradraft.train.optimisers import Optimiser
from paradraft.train.progress import Report, Tally
from paradraft.train.run_folder import Checkpoint, History, read_checkpoint, write_checkpoint
from paradraft.train.sampled_head import sample_head
from paradraft.train.simulate import expected_length

_ANCHORS, _NOISE, _DEPTH, _ROWS = 1, 2, 3, 4  # streams of chance


@dataclass(frozen=True, kw_only=True, slots=True)
class Rhythm:
    """How often a fit speaks and saves, in steps; this changes nothing about the weights."""

    report: int = 20
    measure: int = 500  # expected accepted length on texts held out
    save: int = 200
    held_out: int = 40  # texts to measure on


class Fit:
    """A fit under way."""

    def __init__(
        self,
        net: Net,
        examples: Examples,
        plan: FitPlan,
        *,
        folder: Path,
        teacher: Teacher | None = None,
        scale: Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._device = device or torch.device("cpu")
        self.net, self._examples, self._plan, self._folder = net.to(self._device), examples, plan, folder
        self._teacher, self.scale, self.step = teacher, scale, 0
        self._order = Order(examples.fitted, plan.seed)
        self._optimiser = Optimiser(self.net, plan)
        self._places = _places(net).to(self._device)

    def resume(self, *, may_grow: bool = False) -> bool:
        """Go on from the folder's checkpoint; return whether there is one.

        Raises AlignmentError if it was made by another plan or of other data (may_grow: more data or steps are fine).
        """
        checkpoint = read_checkpoint(self._folder)
        if checkpoint is None:
            return False
        self._require_same(checkpoint, may_grow)
        self.net.restore({name: tensor.to(self._device) for name, tensor in checkpoint.net.items()})
        self._optimiser.restore(checkpoint.optimiser)
        self.scale, self.step = checkpoint.scale, checkpoint.step
        return True

    def begin_with(self, checkpoint: Checkpoint) -> None:
        """Take over the weights of another fit of the same network; steps and optimiser begin anew."""
        self.net.restore({name: tensor.to(self._device) for name, tensor in checkpoint.net.items()})
        self.scale = checkpoint.scale

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
        facts = {"plan": self._plan.to_json(), "data": self._data(), "config": json.dumps(asdict(self.net.config))}
        checkpoint = Checkpoint(
            step=self.step,
            net=self.net.state_dict(),
            optimiser=self._optimiser.state(),
            scale=self.scale,
            facts=facts,
        )
        write_checkpoint(self._folder, checkpoint)

    def measure(self, num_texts: int) -> float | None:
        """Return the expected accepted length on held-out texts, None if there are none."""
        chosen = self._examples.held_out[:num_texts].tolist()
        self.net.eval()
        try:
            return expected_length(self.net, [self._examples.read(at) for at in chosen], self.scale) if chosen else None
        finally:
            self.net.train()

    def _take_step(self, tally: Tally) -> None:
        self.net.train()
        plan, first = self._plan, self.step * self._plan.sequences
        batches = [self._slots(first + number) for number in range(plan.sequences)]
        labels = [draft_labels(slots.wanted, self._places) for slots in batches]
        weight = sum(float(slot_weights(own >= 0, plan.objective).sum()) for own in labels)
        sampled = None
        if plan.head_rows:
            sampled = sample_head(
                self.net, labels, plan.head_rows, np.random.default_rng([plan.seed, _ROWS, self.step])
            )
        share, loss = 1.0 / max(weight, 1e-9), 0.0
        for slots, own in zip(batches, labels, strict=True):
            if not len(own):
                continue
            is_half = plan.dtype == "bf16"
            with drafting(self.net, own.shape[1]), torch.autocast(self._device.type, torch.bfloat16, enabled=is_half):
                losses = batch_loss(self.net, slots, own, plan.objective, self._teacher, share=share, sampled=sampled)
            losses.total.backward()  # type: ignore[no-untyped-call]
            loss += float(losses.total.detach())
            tally.add(losses.ce, losses.is_right, own)
        norm = self._optimiser.step(plan.rate(self.step))
        if not np.isfinite(loss) or not np.isfinite(norm):
            raise self._not_finite(first, loss)
        tally.weight += weight
        tally.norm = norm
        self.step += 1

    def _slots(self, place: int) -> Slots:
        plan = self._plan
        example = self._examples.read(self._order.at(place), longest=plan.longest)
        chance = np.random.default_rng([plan.seed, _ANCHORS, place])
        ids = example.ids.numpy().astype(np.int32)
        block = self.net.config.block_size
        depth = plan.depth(float(np.random.default_rng([plan.seed, _DEPTH, place]).random()), block)
        count = plan.anchors * block // depth
        anchors = draw_anchors(ids, example.prompt_len, count, chance, skip_loops=plan.skip_loops)
        slots = make_slots([_cut(example, anchors, depth)], [anchors], depth, self.scale)
        if plan.noise:
            noise = np.random.default_rng([plan.seed, _NOISE, place]).uniform(-1.0, 1.0, tuple(slots.batch.taps.shape))
            slots.batch.taps.add_(torch.from_numpy(noise.astype(np.float32)), alpha=plan.noise)
        return move(slots, self._device)

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


@contextmanager
def drafting(net: Net, num_slots: int) -> Iterator[None]:
    """Let a network draft blocks of so many slots only; Medusa has a head for each and always drafts all."""
    whole = net.config
    net.config = replace(whole, block_size=num_slots)
    try:
        yield
    finally:
        net.config = whole


def _cut(example: Example, anchors: np.ndarray[tuple[int], np.dtype[np.int32]], num_slots: int) -> Example:
    """Leave out what lies behind all slots of the last anchor."""
    end = min(int(anchors[-1]) + num_slots + 1, len(example.ids)) if len(anchors) else len(example.ids)
    return Example(
        index=example.index,
        ids=example.ids[:end],
        prompt_len=example.prompt_len,
        taps=example.taps[:end],
        last=None if example.last is None else example.last[:end],
        source=example.source,
    )


def _places(net: Net) -> Tensor:
    """Return each target id's draft id, -1 for none, [V]."""
    return net.vocabulary.draft_ids(torch.arange(net.config.vocab_size, device=net.vocabulary.d2t.device))
