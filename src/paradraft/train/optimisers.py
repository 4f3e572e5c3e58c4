"""Optimisers whose whole state can be written down: AdamW, and Muon for matrices with AdamW for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from paradraft.core.errors import ModelError
from paradraft.train.fit_plan import FitPlan

_BETAS = (0.9, 0.95)
_MUON_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of the quintic iteration (K. Jordan, 2024)
_NEWTON_SCHULZ_STEPS = 5
_MUON_RATE = 0.2  # of lr, times sqrt(longer side): the size of AdamW's updates (Moonlight, 2502.16982)
_TABLES = ("markov_w1", "embed")  # rows are looked up, so they are no matrices that multiply


class Optimiser:
    """Steps all weights of a network that can be trained."""

    def __init__(self, net: nn.Module, plan: FitPlan) -> None:
        self._named = {name: weight for name, weight in net.named_parameters() if weight.requires_grad}
        is_muon = plan.optimiser == "muon"
        self._matrices = {name: weight for name, weight in self._named.items() if is_muon and _multiplies(name, weight)}
        self._momentum = {name: torch.zeros_like(weight) for name, weight in self._matrices.items()}
        rest = [weight for name, weight in self._named.items() if name not in self._matrices]
        decay = plan.weight_decay
        groups = [
            {"params": [weight for weight in rest if weight.ndim >= 2], "weight_decay": decay},
            {"params": [weight for weight in rest if weight.ndim < 2], "weight_decay": 0.0},
        ]
        kept = [group for group in groups if group["params"]]
        self._adam = torch.optim.AdamW(kept, lr=plan.lr, betas=_BETAS, fused=True) if kept else None
        self._plan = plan

    def step(self, share: float) -> float:
        """Clip the gradients, move the weights at this share of the learning rate, and return the gradients' norm."""
        norm = float(nn.utils.clip_grad_norm_(self._named.values(), self._plan.clip))
        if self._adam is not None:
            for group in self._adam.param_groups:
                group["lr"] = self._plan.lr * share
            self._adam.step()
        self._step_matrices(self._plan.lr * share)
        for weight in self._named.values():
            weight.grad = None
        return norm

    @torch.no_grad()
    def _step_matrices(self, rate: float) -> None:
        for name, weight in self._matrices.items():
            if weight.grad is None:
                continue
            momentum = self._momentum[name]
            momentum.mul_(_MUON_MOMENTUM).add_(weight.grad)
            update = orthogonalised(weight.grad.add(momentum, alpha=_MUON_MOMENTUM))
            if self._plan.weight_decay:
                weight.mul_(1.0 - rate * self._plan.weight_decay)
            weight.add_(update, alpha=-rate * _MUON_RATE * max(weight.shape) ** 0.5)

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, by name."""
        state = {f"muon.{name}": momentum for name, momentum in self._momentum.items()}
        for name, weight in self._adam_weights():
            for key, value in self._adam.state.get(weight, {}).items() if self._adam else ():
                state[f"adam.{key}.{name}"] = value
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state; raise ModelError if a part of it is missing."""
        try:
            for name, momentum in self._momentum.items():
                momentum.copy_(state[f"muon.{name}"])
            for name, weight in self._adam_weights():
                if self._adam is not None and f"adam.step.{name}" in state:
                    keys = ("step", "exp_avg", "exp_avg_sq")
                    self._adam.state[weight] = {key: state[f"adam.{key}.{name}"].clone() for key in keys}
        except KeyError as error:
            raise ModelError(
                f"The state of the optimiser lacks {error}.", remedy="Use the checkpoint before this one."
            ) from error

    def _adam_weights(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, weight) for name, weight in self._named.items() if name not in self._matrices)


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return about the nearest matrix with orthonormal rows or columns (Newton-Schulz)."""
    a, b, c = _NEWTON_SCHULZ
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix) / (matrix.norm() + 1e-7)
    for _ in range(_NEWTON_SCHULZ_STEPS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    result: Tensor = x.T if is_tall else x
    return result


def _multiplies(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and min(weight.shape) > 1 and not any(table in name for table in _TABLES)
