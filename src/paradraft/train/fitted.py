"""What a fit has reached, as a network that serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.nets.config import NetConfig
from paradraft.train.adapt import merge_adapters
from paradraft.train.beginning import fold_scale
from paradraft.train.run_folder import Checkpoint, read_checkpoint


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FittedNet:
    """A configuration and weights that read taps as the target makes them."""

    config: NetConfig
    state: Mapping[str, Tensor]

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the weights by name."""
        return self.state


def require_checkpoint(folder: Path) -> Checkpoint:
    """Return a fit's checkpoint; raise ModelError if there is none."""
    checkpoint = read_checkpoint(folder)
    if checkpoint is None:
        raise ModelError(f"{folder} holds no checkpoint of a fit.", remedy="Name the folder given to `train fit`.")
    return checkpoint


def fitted_net(folder: Path) -> FittedNet:
    """Return what a fit has reached; raise ModelError if there is no checkpoint or it is damaged."""
    return net_of(require_checkpoint(folder))


def net_of(checkpoint: Checkpoint) -> FittedNet:
    """Return what a checkpoint holds; raise ModelError if it is damaged."""
    state = fold_scale(merge_adapters(checkpoint.net, checkpoint.facts), checkpoint.scale)
    return FittedNet(config=_parse_config(checkpoint.facts.get("config", "")), state=state)


def _parse_config(text: str) -> NetConfig:
    try:
        record = json.loads(text)
        config = NetConfig(**{**record, "tap_layers": tuple(record["tap_layers"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"A checkpoint's configuration cannot be read ({error}).", remedy="Fit again.") from error
    config.check()
    return config
