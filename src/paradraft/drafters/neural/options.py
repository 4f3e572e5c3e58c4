"""How a network drafts."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.errors import ConfigError
from paradraft.drafters.guesses import MAX_SHARES


@dataclass(frozen=True, kw_only=True, slots=True)
class NeuralOptions:
    """What bounds and shapes a network's drafts.

    width: children per node, 1 for a chain; where a network is fed its drafts, also the nodes fed per level.
    is_sampled: draw chains from the laws that are reported, for rules that sample, instead of following the target's
    noise. node_cost: of a plain pass, None: the plan's price.
    """

    width: int = 1
    is_sampled: bool = False
    is_coupled: bool = True
    node_cost: float | None = None
    num_candidates: int = MAX_SHARES
    num_warm_candidates: int = 4 * MAX_SHARES

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.width < 1:
            raise ConfigError(f"width={self.width} leaves no draft.", remedy="Use 1 for chains, more for trees.")
        if self.is_sampled and self.width > 1:
            raise ConfigError(
                f"width={self.width} makes trees, and drawn drafts are chains.", remedy="Use 1 with sampling rules."
            )
