"""The weights that blending starts from, fitted offline by replaying recorded answers.

`python benchmarks/replay_drafters.py --fit` prints them anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

DEPTHS = 4  # classes of depth; the last for all deeper places


@dataclass(slots=True)
class SourceWeights:
    """How a source counts (blend.py): slopes multiply log chances, the others are constants."""

    hit_slope: float
    hit: float
    miss_slope: float
    miss: float
    rest_slope: float
    silent: float


@dataclass(slots=True)
class Weights:
    """The weights of a pool."""

    sources: list[SourceWeights]
    depth: list[float]
    noise: float = 1.0

    def copy(self) -> Weights:
        """Return weights that can change on their own."""
        return Weights([replace(source) for source in self.sources], list(self.depth), self.noise)


# A source that nothing is known of yet is believed as it is when alone, and about half as much beside others.
_UNKNOWN = SourceWeights(0.6, 0.4, 0.5, -0.8, 0.6, 0.4)
_ALONE = SourceWeights(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_DEPTH = [0.0] * DEPTHS

# By the names of the sources in alphabetical order.
_FITTED: Mapping[tuple[str, ...], Weights] = MappingProxyType(
    {
        # A blend of free sources beside a network (frugal.py), as learned on 1,100 places of greedy answers by a DSpark
        # network asked in every round. The blend is bent towards the target's noise already, so nothing more is due.
        ("free", "network"): Weights(
            [
                SourceWeights(0.98, 1.07, 1.08, -1.47, 0.43, 0.54),
                SourceWeights(0.50, 0.35, 0.26, -0.92, 0.53, 0.35),
            ],
            [0.27, 0.0, 0.0, -0.1],
            noise=0.0,
        ),
        ("recent", "suffix+shared", "table"): Weights(
            [
                SourceWeights(0.54, 0.62, 0.71, -0.62, 0.69, 0.28),
                SourceWeights(0.55, 0.30, 0.41, -0.40, 0.39, 0.38),
                SourceWeights(0.67, 0.26, 0.48, -0.93, 0.60, 0.67),
            ],
            [0.55, 0.53, 0.5, 0.5],
        ),
        ("recent", "table"): Weights(
            [
                SourceWeights(0.85, 0.79, 0.98, -0.81, 1.04, 0.31),
                SourceWeights(0.66, 0.07, 0.46, -1.20, 0.58, 0.89),
            ],
            [0.7, 0.7, 0.6, 0.7],
        ),
        ("suffix+shared", "table"): Weights(
            [
                SourceWeights(1.07, 1.30, 1.02, -1.15, 1.07, 0.81),
                SourceWeights(0.68, 0.17, 0.51, -0.75, 0.59, 0.59),
            ],
            [0.45, 0.4, 0.35, 0.4],
        ),
    }
)


def prior_of(names: Sequence[str]) -> Weights:
    """Return the weights for these sources, in this order."""
    known = _FITTED.get(tuple(sorted(names)))
    if known is not None:
        by_name = dict(zip(sorted(names), known.sources, strict=True))
        return Weights([replace(by_name[name]) for name in names], list(known.depth), known.noise)
    if len(names) == 1:
        return Weights([replace(_ALONE)], list(_DEPTH))
    return Weights([replace(_beside_others(name)) for name in names], list(_DEPTH))


def _beside_others(name: str) -> SourceWeights:
    """Return a source's weights in the largest set that was fitted with it."""
    known = [dict(zip(names, weights.sources, strict=True)) for names, weights in _FITTED.items() if name in names]
    return max(known, key=len)[name] if known else _UNKNOWN
