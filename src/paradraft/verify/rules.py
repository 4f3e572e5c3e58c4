"""The rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from paradraft.core.errors import ConfigError
from paradraft.core.ports import Noise
from paradraft.verify.block import BlockRule
from paradraft.verify.coupled import CoupledRule
from paradraft.verify.greedy import GreedyRule
from paradraft.verify.law import Law
from paradraft.verify.ratio import RatioRule
from paradraft.verify.recursive import RecursiveRule
from paradraft.verify.rejection import RejectionRule
from paradraft.verify.tree import RowTree, Shape, Walk
from paradraft.verify.typical import TypicalRule


class Rule(Protocol):
    """Decides which drafts of one row stand. Stateless: the same inputs and noise give the same walk."""

    @property
    def name(self) -> str:
        """Return the name in make_rule and in the configuration."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether the output has exactly the target's law."""
        ...

    @property
    def shape(self) -> Shape:
        """Return what it can walk: chains only, or trees."""
        ...

    @property
    def reads_draft_laws(self) -> bool:
        """Whether it reads Proposal.laws, so that sampling drafters must report what they drew from."""
        ...

    @property
    def is_greedy_only(self) -> bool:
        """Whether it refuses requests with a temperature above 0."""
        ...

    @property
    def is_coupled(self) -> bool:
        """Whether a walk follows the target's own keyed choices, which a Chooser may make as well."""
        ...

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        """Return the accepted path and the next token.

        law gives the target's law after a node (or ROOT); it costs time, so it is asked only where the walk goes.
        All randomness comes from noise.flip and noise.choose, no key twice in the life of a request.
        """
        ...


_MAKERS: Mapping[str, Callable[[float], Rule]] = MappingProxyType(
    {
        "coupled": lambda _: CoupledRule(),
        "greedy": lambda _: GreedyRule(),
        "rejection": lambda _: RejectionRule(),
        "block": lambda _: BlockRule(),
        "recursive": lambda _: RecursiveRule(),
        "ratio": lambda alpha: RatioRule(alpha=alpha),
        "typical": lambda _: TypicalRule(),
    }
)
RULE_NAMES = tuple(_MAKERS)


def make_rule(name: str, alpha: float = 0.6) -> Rule:
    """Return the rule of this name; alpha is the ratio rule's. Raises ConfigError for an unknown name or bad alpha."""
    if name not in _MAKERS:
        raise ConfigError(f"rule={name!r} is not known.", remedy=f"Choose one of {', '.join(RULE_NAMES)}.")
    return _MAKERS[name](alpha)
