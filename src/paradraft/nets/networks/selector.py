"""The network that tells how surprised a drafter will be, fitted on positions that a drafter logged while it served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ConfigError

MIN_POSITIONS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectorFit:
    """How a selector is fitted. The last `held_out` share of the positions is not fitted on, but measured."""

    hidden: int = 32
    epochs: int = 30
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    held_out: float = 0.1
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FitResult:
    """The network, and its mean squared error on held-out positions beside that of their mean."""

    net: SelectorNet
    error: float
    error_of_mean: float

    @property
    def explained(self) -> float:
        """Return the share of the held-out variance that the network explains."""
        return 1.0 - self.error / self.error_of_mean if self.error_of_mean > 0.0 else 0.0


class SelectorNet(nn.Module):
    """Features [n, F] to expected surprise [n] in nats; features are brought to mean 0 and deviation 1 first."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.hidden = nn.Linear(len(mean), hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the expected surprise [n]."""
        hidden = torch.relu(self.hidden((features - self.mean) / self.deviation))
        answer: Tensor = self.out(hidden).squeeze(-1)
        return answer

    def save(self, path: Path, *, layer: int, heads: int, threshold: float) -> None:
        """Write the file that drafters/neural/selector.py reads."""
        facts = {"layer": str(layer), "heads": str(heads), "threshold": repr(threshold)}
        save_file({name: tensor.contiguous() for name, tensor in self.state_dict().items()}, path, metadata=facts)


def fit_selector(features: FloatArray, surprises: FloatArray, options: SelectorFit | None = None) -> FitResult:
    """Return a selector fitted to surprises [n] in nats by features [n, F]; the same input gives the same network.

    Raises ConfigError for too few positions, or values that are not numbers.
    """
    options = options or SelectorFit()
    _check(features, surprises)
    num_fitted = len(features) - max(1, int(len(features) * options.held_out))
    inputs, targets = torch.from_numpy(features).float(), torch.from_numpy(surprises).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        fitted = inputs[:num_fitted]
        net = SelectorNet(fitted.mean(0), fitted.std(0).clamp_min(1e-3), options.hidden)
        nn.init.constant_(net.out.bias, float(targets[:num_fitted].mean()))
        _descend(net, fitted, targets[:num_fitted], options)
    with torch.no_grad():
        error = float((net(inputs[num_fitted:]) - targets[num_fitted:]).square().mean())
        error_of_mean = float((targets[num_fitted:] - targets[:num_fitted].mean()).square().mean())
    return FitResult(net=net, error=error, error_of_mean=error_of_mean)


def _descend(net: SelectorNet, inputs: Tensor, targets: Tensor, options: SelectorFit) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    for _ in range(options.epochs):
        for part in torch.split(torch.randperm(len(inputs)), options.batch):
            loss = (net(inputs[part]) - targets[part]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def _check(features: FloatArray, surprises: FloatArray) -> None:
    if features.ndim != 2 or surprises.shape != features.shape[:1]:
        raise ConfigError(
            f"Features of shape {features.shape} and surprises of shape {surprises.shape} do not belong together.",
            remedy="Give [n, F] and [n].",
        )
    if len(features) < MIN_POSITIONS:
        raise ConfigError(
            f"{len(features)} positions are too few to fit a selector.",
            remedy=f"Log at least {MIN_POSITIONS}, better some thousands.",
        )
    if not (np.isfinite(features).all() and np.isfinite(surprises).all()):
        raise ConfigError("Some logged positions are not numbers.", remedy="Leave them out.")
