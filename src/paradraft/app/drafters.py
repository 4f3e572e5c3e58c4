"""The table of drafters: a built-in method by its name, or else a model that drafts for the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paradraft.app.config import Config
from paradraft.core.ports import Drafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.plain import PlainDrafter
from paradraft.drafters.suffix import SuffixDrafter

# One line for each method that needs no weights of its own.
METHODS: Mapping[str, Callable[[Config], Drafter]] = MappingProxyType(
    {
        "none": lambda _: PlainDrafter(),
        "ngram": lambda _: NgramDrafter(),
        "suffix": lambda config: SuffixDrafter(shared_tokens=config.suffix_shared_tokens),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """A drafter and the budget it is given."""

    drafter: Drafter
    gamma: int
    nodes: int
    close: Callable[[], None]


def build_drafter(config: Config) -> Drafting:
    """Return the configured drafter."""
    gamma = 0 if config.drafter == "none" else config.gamma
    return Drafting(drafter=METHODS[config.drafter](config), gamma=gamma, nodes=gamma, close=lambda: None)
