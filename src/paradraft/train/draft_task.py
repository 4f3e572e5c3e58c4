"""What a step of fitting a drafting network is made of: texts, anchors, labels and the loss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from paradraft.core.errors import ConfigError
from paradraft.nets.networks.eagle import EagleNet
from paradraft.nets.networks.net import Net
from paradraft.nets.vocabulary import DraftVocabulary
from paradraft.train.anchors import draw_anchors
from paradraft.train.batches import Slots, draft_labels, make_slots, move
from paradraft.train.examples import Example
from paradraft.train.fit_plan import FitPlan
from paradraft.train.losses import batch_loss
from paradraft.train.objectives import Losses, measure, slot_weights
from paradraft.train.sampled_head import SampledHead, sample_head
from paradraft.train.simulate import expected_length
from paradraft.train.soft_labels import SoftLabels, soft_labels
from paradraft.train.teacher import Teacher

_DROP_RATIO, _LEAST_RATIO = 0.7, 0.2
_ANCHORS, _NOISE, _DEPTH, _ROWS = 1, 2, 3, 4  # streams of chance


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DraftPiece:
    """One text of a step."""

    slots: Slots
    labels: Tensor  # [A, K] draft ids, -1 where there is nothing to learn
    place: int  # in the order of all texts
    soft: SoftLabels | None = None


class DraftTask:
    """Fits a drafting network."""

    def __init__(
        self, net: Net, plan: FitPlan, *, teacher: Teacher | None, scale: Tensor | None, device: torch.device
    ) -> None:
        self.net, self.scale = net.to(device), scale
        self._plan, self._teacher, self._device = plan, teacher, device
        self._sampled: SampledHead | None = None
        self._parallel = net if isinstance(net, EagleNet) and net.config.method == "peagle" else None
        if plan.depths == "dropped" and self._parallel is None:
            raise ConfigError(
                f"depths='dropped' is P-EAGLE's, and this is {net.config.method}.",
                remedy="Use depths='mixed' or 'full'.",
            )
        if plan.depths == "dropped" and plan.objective.soft:
            raise ConfigError(
                f"soft={plan.objective.soft!r} does not go with depths='dropped'.",
                remedy="Use depths='mixed' or 'full', or leave soft at 0.",
            )
        self._places = self._draft_places()

    def restore(self, state: Mapping[str, Tensor], scale: Tensor | None) -> None:
        """Take over weights, the vocabulary among them, and the scale of the taps that they were fitted to."""
        self.net.restore({name: tensor.to(self._device) for name, tensor in state.items()})
        self.scale, self._places = scale, self._draft_places()

    def facts(self) -> dict[str, str]:
        """Return what a checkpoint has to say beside the weights."""
        return {"config": json.dumps(asdict(self.net.config))}

    def prepare(self, example: Example, place: int) -> DraftPiece:
        """Draw anchors of a text, at a place of the order of all texts."""
        plan, block = self._plan, self.net.config.block_size
        chance = np.random.default_rng([plan.seed, _ANCHORS, place])
        depth = plan.depth(float(np.random.default_rng([plan.seed, _DEPTH, place]).random()), block)
        ids, count = example.ids.numpy().astype(np.int32), plan.anchors * block // depth
        anchors = draw_anchors(ids, example.prompt_len, count, chance, skip_loops=plan.skip_loops)
        slots = make_slots([_cut(example, anchors, depth)], [anchors], depth, self.scale)
        if plan.noise:
            noise = np.random.default_rng([plan.seed, _NOISE, place]).uniform(-1.0, 1.0, tuple(slots.batch.taps.shape))
            slots.batch.taps.add_(torch.from_numpy(noise.astype(np.float32)), alpha=plan.noise)
        moved = move(slots, self._device)
        labels = draft_labels(moved.wanted, self._places)
        return DraftPiece(slots=moved, labels=labels, place=place, soft=self._soft(moved))

    def begin_step(self, pieces: Sequence[DraftPiece], step: int) -> float:
        """Return the weight of all pieces together; their losses are divided by it."""
        plan = self._plan
        if plan.head_rows:
            chance = np.random.default_rng([plan.seed, _ROWS, step])
            asked = [piece.labels for piece in pieces] + [piece.soft.ids for piece in pieces if piece.soft is not None]
            self._sampled = sample_head(self.net, asked, plan.head_rows, chance)
        if plan.depths == "dropped":
            return sum(float(((piece.labels >= 0) * _kept(piece.labels.shape[1])).sum()) for piece in pieces)
        return sum(float(slot_weights(piece.labels >= 0, plan.objective).sum()) for piece in pieces)

    def loss(self, piece: DraftPiece, share: float) -> Losses | None:
        """Return the losses of a piece times share, None if it has no anchor."""
        plan, labels = self._plan, piece.labels
        if not len(labels):
            return None
        is_half = plan.dtype == "bf16"
        if plan.depths == "dropped":
            return self._dropped_loss(piece, share)
        with drafting(self.net, labels.shape[1]), torch.autocast(self._device.type, torch.bfloat16, enabled=is_half):
            return batch_loss(
                self.net,
                piece.slots,
                labels,
                plan.objective,
                self._teacher,
                share=share,
                sampled=self._sampled,
                soft=piece.soft,
            )

    def _dropped_loss(self, piece: DraftPiece, share: float) -> Losses:
        """Return the losses of slots under conditional drop-token; each is a block of its own."""
        batch = piece.slots.batch
        generator = torch.Generator().manual_seed(piece.place)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._plan.dtype == "bf16"):
            assert self._parallel is not None
            found = self._parallel.cod_training(batch, generator=generator, ratio=_DROP_RATIO, least_ratio=_LEAST_RATIO)
        rows = torch.searchsorted(batch.anchors, found.anchors)
        labels = piece.labels[rows, found.depths][:, None]
        last = piece.slots.last
        law = None if self._teacher is None or last is None else last[rows, found.depths][:, None]
        teacher = None if law is None or self._teacher is None else self._teacher.logits(law, self.net.lm_head.weight)
        losses = measure(
            found.output.logits[:, None], labels, teacher, None, replace(self._plan.objective, weighting="equal")
        )
        return replace(losses, total=share * losses.total)

    def measure(self, examples: Sequence[Example]) -> float:
        """Return the expected accepted length on texts, the target's own token included."""
        return expected_length(self.net, examples, self.scale)

    def _soft(self, slots: Slots) -> SoftLabels | None:
        objective = self._plan.objective
        if not objective.soft or not len(slots.wanted):
            return None
        if self._teacher is None or slots.last is None:
            raise ConfigError(
                "Soft labels need the target's law, and the shards have no taps of its last layer.",
                remedy="Capture with the last layer among the taps, or leave soft at 0.",
            )
        dtype = torch.bfloat16 if self._plan.dtype == "bf16" else torch.float32
        return soft_labels(self._teacher, self.net.lm_head.weight, slots, objective.soft, dtype)

    def _draft_places(self) -> Tensor:
        """Return each target id's draft id, -1 for none, [V]."""
        vocabulary = DraftVocabulary(self.net.d2t, self.net.t2d)
        return vocabulary.draft_ids(torch.arange(self.net.config.vocab_size, device=self._device))


def _kept(num_slots: int) -> Tensor:
    """Return the share of anchors that keep a slot at each depth, as cod_training drops them."""
    return (_DROP_RATIO ** torch.arange(num_slots)).clamp_min(_LEAST_RATIO)


@contextmanager
def drafting(net: Net, num_slots: int) -> Iterator[None]:
    """Let a network draft blocks of so many slots only."""
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
