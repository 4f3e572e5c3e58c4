"""Distils a target into a small model of the same vocabulary, to be used as a draft model.

It learns the target's law at every place of the answers, from the captured output of the target's last layer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from paradraft.core.errors import ConfigError, ModelError
from paradraft.models.checkpoint import Checkpoint, Source
from paradraft.models.export import export_model
from paradraft.models.tensors import stored_of
from paradraft.models.tokenizer import load_tokenizer
from paradraft.models.weight_map import WeightMap
from paradraft.train.examples import Example, Examples
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.objectives import Losses, measure
from paradraft.train.run_folder import CHECKPOINT, read_checkpoint
from paradraft.train.small_model import SmallModel, SmallPlan, begin_small
from paradraft.train.target import TargetTables, open_target, require_target
from paradraft.train.teacher import Teacher

_CHUNK = 32  # places whose logits are held at once
_DEPTH = 4  # of the drafts that the expected length is told for


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lesson:
    """One text of a step: what is said at places from .. to - 1 is learnt."""

    example: Example
    first: int  # place after which the answer's first token is said

    @property
    def num_places(self) -> int:
        """Return how many tokens are learnt."""
        return max(len(self.example.ids) - 1 - self.first, 0)


class DistillTask:
    """Fits a small model to a target's laws."""

    def __init__(self, net: SmallModel, plan: FitPlan, small: SmallPlan, target: TargetTables) -> None:
        """Take a model, fresh or begun; raise ConfigError for a plan that cannot be distilled by."""
        if plan.objective.soft:
            raise ConfigError(
                f"soft={plan.objective.soft!r} is for networks that draft.", remedy="Distil with kl, the whole law."
            )
        self.net = net
        self.scale: Tensor | None = None
        self._plan, self._small, self._head = plan, small, target.head
        self._teacher = Teacher(norm=target.final_norm, eps=target.config.norm_eps)

    def restore(self, state: Mapping[str, Tensor], scale: Tensor | None) -> None:  # noqa: ARG002 - the protocol's
        """Take over weights; raise ModelError if they are another model's."""
        try:
            self.net.load_state_dict(dict(state))
        except RuntimeError as error:
            raise ModelError(f"The checkpoint is another model's ({error}).", remedy="Use another folder.") from error

    def facts(self) -> dict[str, str]:
        """Return what a checkpoint has to say beside the weights."""
        return {"small": json.dumps(asdict(self._small))}

    def prepare(self, example: Example, place: int) -> Lesson:  # noqa: ARG002 - the protocol's
        """Return the lesson of a text; nothing is drawn."""
        return Lesson(example=example, first=example.prompt_len - 1)

    def begin_step(self, pieces: Sequence[Lesson], step: int) -> float:  # noqa: ARG002 - the protocol's
        """Return the number of places."""
        return float(sum(piece.num_places for piece in pieces))

    def loss(self, piece: Lesson, share: float) -> Losses | None:
        """Return the losses of a text times share; the head's part of the gradient is added here."""
        if not piece.num_places:
            return None
        ids, places = piece.example.ids, torch.arange(piece.first, len(piece.example.ids) - 1)
        hidden = self.net.hidden(ids[:-1])[places]
        leaf = hidden.detach().requires_grad_()
        total, ce, right = 0.0, hidden.new_zeros(()), []
        for low in range(0, len(places), _CHUNK):
            part = places[low : low + _CHUNK]
            logits = (leaf[low : low + _CHUNK] @ self.net.head.T)[:, None]
            losses = measure(logits, ids[part + 1][:, None], self._law(piece, part), None, self._plan.objective)
            (share * losses.total).backward()  # type: ignore[no-untyped-call]
            total, ce = total + share * float(losses.total.detach()), ce + losses.ce
            right.append(losses.is_right)
        assert leaf.grad is not None
        product = (hidden * leaf.grad).sum()
        return Losses(total=product - product.detach() + total, ce=ce, is_right=torch.cat(right), num_slots=len(places))

    @torch.no_grad()
    def measure(self, examples: Sequence[Example]) -> float:
        """Return the expected accepted length of greedy drafts of four tokens, the target's own token included."""
        lengths = [self._lengths(example) for example in examples]
        joined = torch.cat(lengths) if lengths else torch.zeros(0)
        return 1.0 + float(joined.mean()) if len(joined) else 1.0

    def _lengths(self, example: Example) -> Tensor:
        hidden = self.net.hidden(example.ids[:-1])[example.prompt_len :]
        parts = [part @ self.net.head.T for part in torch.split(hidden, _CHUNK)]
        hits = torch.cat([part.argmax(-1) for part in parts]) == example.ids[example.prompt_len + 1 :]
        if len(hits) < _DEPTH:
            return torch.zeros(0)
        return hits.unfold(0, _DEPTH, 1).float().cumprod(1).sum(1)

    def _law(self, piece: Lesson, places: Tensor) -> Tensor | None:
        if not self._plan.objective.needs_teacher or piece.example.last is None:
            return None
        with torch.no_grad():
            return self._teacher.logits(piece.example.last[places], self._head)[:, None]


def open_distillation(shards: Path, folder: Path, *, target: str, small: SmallPlan, plan: FitPlan) -> Fit[Lesson]:
    """Return a distillation, gone on to its folder's checkpoint if there is one.

    Raises AlignmentError for shards of another target, ModelError for damaged files.
    """
    opened = open_target(target)
    last = opened.config.num_layers - 1
    examples = Examples(shards, (last,), last, hold_out=plan.hold_out)
    require_target(examples.target, opened, shards)
    task = DistillTask(begin_small(small, opened, seed=plan.seed), plan, small, opened)
    fit = Fit(task, examples, plan, folder=folder)
    fit.resume()
    return fit


def export_small(folder: Path, out: Path, *, target: str, dtype: str = "bf16") -> Path:
    """Write a distilled model as a Hugging Face folder with the target's tokenizer, and return the folder."""
    checkpoint = read_checkpoint(folder)
    if checkpoint is None or "small" not in checkpoint.facts:
        raise ModelError(f"{folder} holds no distilled model.", remedy="Name the folder given to `train distill`.")
    opened = open_target(target)
    config = SmallPlan(**json.loads(checkpoint.facts["small"])).config_json(opened)
    readers = {name: partial(stored_of, tensor) for name, tensor in checkpoint.net.items()}
    model = Checkpoint(
        source=Source(name=f"{opened.name} distilled", path=folder, revision=None),
        config=config,
        generation_config=opened.checkpoint.generation_config,
        stored=WeightMap(readers, origin=str(folder)),
        files=(folder / CHECKPOINT,),
    )
    return export_model(model, load_tokenizer(opened.checkpoint.source.path), out, dtype=dtype).folder
