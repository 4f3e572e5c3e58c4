"""Adapts a drafter to a domain: low-rank changes of its matrices are fitted, and merged into them on export.

LoRA: Hu et al., arXiv 2106.09685. The matrices themselves, norms and tables stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from paradraft.core.errors import ConfigError, ModelError
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.net import Net
from paradraft.train.beginning import unfold_scale, uses_scale
from paradraft.train.draft_task import DraftPiece, DraftTask
from paradraft.train.examples import Examples
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.target import open_target, require_target
from paradraft.train.teacher import Teacher

_DOWN, _UP = "adapter_down", "adapter_up"


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterPlan:
    """How much may change: matrices move by alpha / rank * up @ down, of this rank."""

    rank: int = 8
    alpha: float = 16.0

    def __post_init__(self) -> None:
        """Raise ConfigError for a value that cannot be used."""
        if not 1 <= self.rank <= 1024:
            raise ConfigError(f"rank={self.rank} is not allowed.", remedy="Use a whole number from 1 to 1024.")
        if not 0.0 < self.alpha <= 1e4:
            raise ConfigError(f"alpha={self.alpha} is not allowed.", remedy="Use a number above 0, such as 16.")

    @property
    def scale(self) -> float:
        """Return what the low-rank product is multiplied by."""
        return self.alpha / self.rank


class AdaptedLinear(nn.Module):
    """A frozen linear layer and a low-rank change of it, which begins as none."""

    def __init__(self, layer: nn.Linear, plan: AdapterPlan) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach(), requires_grad=False)
        self.adapter_down = nn.Parameter(torch.randn(plan.rank, layer.in_features) * layer.in_features**-0.5)
        self.adapter_up = nn.Parameter(torch.zeros(layer.out_features, plan.rank))
        self._scale = plan.scale

    def forward(self, lines: Tensor) -> Tensor:
        """Return the changed layer's outputs."""
        change = functional.linear(functional.linear(lines, self.adapter_down), self.adapter_up)
        return functional.linear(lines, self.weight, self.bias) + self._scale * change


class AdaptTask(DraftTask):
    """Fits the adapters of a drafting network."""

    adapter: AdapterPlan

    def facts(self) -> dict[str, str]:
        """Return what a checkpoint has to say beside the weights."""
        return {**super().facts(), "adapter": json.dumps({"rank": self.adapter.rank, "alpha": self.adapter.alpha})}


def open_adaptation(
    drafter: Path, shards: Path, folder: Path, *, target: str, adapter: AdapterPlan, plan: FitPlan
) -> Fit[DraftPiece]:
    """Return a fit of adapters for a drafter folder, gone on to its folder's checkpoint if there is one.

    Raises AlignmentError for shards of another target, ModelError for damaged files.
    """
    opened = open_target(target)
    loaded = load_drafter_folder(drafter, num_target_layers=opened.config.num_layers)
    loaded = loaded.with_rows(opened.tables)
    examples = Examples(shards, loaded.config.tap_layers, opened.config.num_layers - 1, hold_out=plan.hold_out)
    require_target(examples.target, opened, shards)
    scale = examples.measure_scale() if uses_scale(loaded.config) else None
    net = restore_net(loaded.config, unfold_scale(loaded.state, scale), opened.embedding, opened.head).float()
    torch.manual_seed(plan.seed)
    add_adapters(net, adapter)
    teacher = Teacher(norm=opened.final_norm, eps=opened.config.norm_eps) if plan.objective.needs_last_layer else None
    task = AdaptTask(net, plan, teacher=teacher, scale=scale, device=torch.device("cpu"))
    task.adapter = adapter
    fit = Fit(task, examples, plan, folder=folder)
    fit.resume()
    return fit


def add_adapters(net: Net, plan: AdapterPlan) -> None:
    """Freeze a network and give each of its linear layers an adapter; heads that know the token before stay."""
    for weight in net.parameters():
        weight.requires_grad_(False)
    chosen = [
        (name, module)
        for name, module in net.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(("markov_head", "confidence_head"))
    ]
    for name, module in chosen:
        owner, _, own = name.rpartition(".")
        setattr(net.get_submodule(owner), own, AdaptedLinear(module, plan))


def merge_adapters(state: Mapping[str, Tensor], facts: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the weights of a checkpoint with its adapters merged; those of a fit without any come back as they are."""
    if "adapter" not in facts:
        return dict(state)
    try:
        scale = AdapterPlan(**json.loads(facts["adapter"])).scale
    except (ValueError, TypeError) as error:
        raise ModelError(f"A checkpoint's adapters cannot be read ({error}).", remedy="Adapt again.") from error
    merged = {name: tensor for name, tensor in state.items() if not name.endswith((_DOWN, _UP))}
    for name in state:
        if name.endswith(_DOWN):
            layer = name.removesuffix(_DOWN)
            merged[f"{layer}weight"] = merged[f"{layer}weight"] + scale * state[f"{layer}{_UP}"] @ state[name]
    return merged
