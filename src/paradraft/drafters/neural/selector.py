"""How unsure a position is: features of the target's attention and of the drafter, and what they are taken to mean.

A selector tells the surprise it expects at a position, in nats: -log of the chance that the drafter will have given to
the token that comes. A position is uncertain above a threshold. The default of 1.8 nats means that the token that comes
gets about one sixth.

A selector's file is in safetensors format: tensors `mean`, `deviation` [F], `hidden.weight` [H, F], `hidden.bias` [H],
`out.weight` [1, H], `out.bias` [1], and the metadata `layer` (whose attention it reads), `heads` and `threshold`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from safetensors import SafetensorError, safe_open

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.core.errors import ModelError

THRESHOLD = 1.8  # nats
HIGHEST_SURPRISE = 8.0  # a token that the drafter does not name at all counts as this surprising
NUM_DRAFTER_FEATURES = 4
MAX_HIDDEN, MAX_HEADS, MAX_LAYER = 4096, 1024, 1024
_DEEP = 8.0  # levels; scales depth to the size of the other features


class Selector(Protocol):
    """Scores positions."""

    @property
    def layer(self) -> int:
        """Return whose attention it reads, counted from 0."""
        ...

    @property
    def threshold(self) -> float:
        """Return the nats above which a position is uncertain."""
        ...

    def expected_surprise(self, features: FloatArray) -> float:
        """Return the surprise in nats to expect at a position with these features [F]."""
        ...


def features_of(entropies: FloatArray, shares: Mapping[int, float], depth: int) -> FloatArray:
    """Return the features [heads + 4] of a position at a depth of the draft (0: the first one).

    entropies [heads] are those of the attention that chose the row's last token. shares are the drafter's; what it does
    not name counts as one more token.
    """
    values = sorted(shares.values(), reverse=True)
    first = values[0] if values else 0.0
    second = values[1] if len(values) > 1 else 0.0
    named = (first, first - second, _entropy(values), depth / _DEEP)
    return np.concatenate([entropies, np.array(named, dtype=np.float32)]).astype(np.float32)


def _entropy(shares: Sequence[float]) -> float:
    """Return the entropy in nats of shares and their rest."""
    parts = [*shares, 1.0 - sum(shares)]
    return -sum(part * math.log(part) for part in parts if part > 0.0)


def surprise(shares: Mapping[int, float], token: int) -> float:
    """Return what a token's coming is worth in nats, at most HIGHEST_SURPRISE."""
    share = shares.get(token, 0.0)
    return min(-math.log(share), HIGHEST_SURPRISE) if share > 0.0 else HIGHEST_SURPRISE


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanEntropy:
    """The selector that needs no training: the mean entropy of the heads, taken for a surprise."""

    layer: int
    threshold: float = THRESHOLD

    def expected_surprise(self, features: FloatArray) -> float:
        """Return the mean over the heads."""
        return float(features[:-NUM_DRAFTER_FEATURES].mean())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MlpSelector:
    """A network of two layers."""

    layer: int
    threshold: float
    mean: DoubleArray  # [F]
    deviation: DoubleArray  # [F]
    hidden_weight: DoubleArray  # [H, F]
    hidden_bias: DoubleArray  # [H]
    out_weight: DoubleArray  # [1, H]
    out_bias: DoubleArray  # [1]

    def expected_surprise(self, features: FloatArray) -> float:
        """Return the network's answer."""
        hidden = np.maximum(self.hidden_weight @ ((features - self.mean) / self.deviation) + self.hidden_bias, 0.0)
        return float((self.out_weight @ hidden + self.out_bias)[0])


def read_selector(path: Path, threshold: float | None = None) -> MlpSelector:
    """Return the selector in a file, with another threshold if one is given; raise ModelError if it cannot be used."""
    try:
        with safe_open(path, framework="numpy") as file:
            facts = file.metadata() or {}
            tensors = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise _refusal(path, f"cannot be read ({error})") from error
    layer, heads = _whole(path, facts, "layer", MAX_LAYER), _whole(path, facts, "heads", MAX_HEADS)
    _check_tensors(path, tensors, heads + NUM_DRAFTER_FEATURES)
    return MlpSelector(
        layer=layer,
        threshold=_threshold(path, facts) if threshold is None else threshold,
        mean=tensors["mean"],
        deviation=tensors["deviation"],
        hidden_weight=tensors["hidden.weight"],
        hidden_bias=tensors["hidden.bias"],
        out_weight=tensors["out.weight"],
        out_bias=tensors["out.bias"],
    )


def _whole(path: Path, facts: Mapping[str, str], name: str, most: int) -> int:
    text = facts.get(name, "")
    if not text.isdigit() or not 0 <= int(text) <= most:
        raise _refusal(path, f"has {name}={text!r} in its metadata, where a whole number up to {most} belongs")
    return int(text)


def _threshold(path: Path, facts: Mapping[str, str]) -> float:
    try:
        threshold = float(facts.get("threshold", THRESHOLD))
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise _refusal(path, f"has threshold={facts.get('threshold')!r} in its metadata, which is no number")
    return threshold


def _check_tensors(path: Path, tensors: Mapping[str, DoubleArray], num_features: int) -> None:
    hidden = tensors.get("hidden.bias", np.zeros(0)).size
    if not 1 <= hidden <= MAX_HIDDEN:
        raise _refusal(path, f"has a hidden layer of {hidden}, where 1 to {MAX_HIDDEN} are allowed")
    shapes = {
        "mean": (num_features,),
        "deviation": (num_features,),
        "hidden.weight": (hidden, num_features),
        "hidden.bias": (hidden,),
        "out.weight": (1, hidden),
        "out.bias": (1,),
    }
    for name, shape in shapes.items():
        found = tensors.get(name)
        if found is None or found.shape != shape:
            raise _refusal(path, f"has {name} of shape {None if found is None else found.shape}, not {shape}")
        if not np.isfinite(found).all():
            raise _refusal(path, f"has values in {name} that are not numbers")
    if not (tensors["deviation"] > 0.0).all():
        raise _refusal(path, "has a deviation that is not above 0")


def _refusal(path: Path, reason: str) -> ModelError:
    return ModelError(f"The selector {path} {reason}.", remedy="Fit one for this target, or leave it out.")
