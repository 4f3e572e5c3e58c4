"""The selector of uncertain positions around whatever drafter is configured: its file first, then the drafter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paradraft.app.config import Config
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Drafter, Needs
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.neural.selector import THRESHOLD, MeanEntropy, Selector, read_selector
from paradraft.drafters.neural.uncertain_tree import TREE_NODES
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.verify.rules import Rule
from paradraft.verify.tree import Shape

UNTRAINED = "entropy"


def open_selector(config: Config, rule: Rule) -> Selector | None:
    """Return the configured selector; raise ModelError for its file, ConfigError for a rule that checks chains only."""
    if config.draft_selector is None:
        return None
    if rule.shape is not Shape.TREE:
        raise ConfigError(
            f"draft_selector={config.draft_selector} makes trees, and the rule {rule.name!r} checks chains.",
            remedy="Leave draft_selector out, or use the rule coupled or recursive.",
        )
    if config.draft_selector == UNTRAINED:
        threshold = THRESHOLD if config.draft_threshold is None else config.draft_threshold
        return MeanEntropy(layer=_last_layer(config), threshold=threshold)
    return read_selector(Path(config.draft_selector).expanduser(), config.draft_threshold)


def _last_layer(config: Config) -> int:
    facts = open_checkpoint(find_model(config.model, revision=config.revision)).config
    return int(str(facts["num_hidden_layers"])) - 1


def with_attention(needs: Needs, selector: Selector | None) -> Needs:
    """Return what the target has to record for a drafter's needs and the selector's."""
    if selector is None:
        return needs
    return replace(needs, entropy_layers=tuple(sorted({*needs.entropy_layers, selector.layer})))


def select_positions(drafter: Drafter, selector: Selector, config: Config) -> tuple[Drafter, int]:
    """Return the drafter with its guesses shaped by the selector, and the nodes it may use.

    Raises ConfigError for a drafter that cannot tell its guesses one by one.
    """
    if not isinstance(drafter, GuessingDrafter):
        raise ConfigError(
            f"draft_selector does not go with drafter={config.drafter}, which does not tell its guesses one by one.",
            remedy="Use ngram, suffix, table or a drafting network, or leave draft_selector out.",
        )
    nodes = config.draft_nodes or max(config.gamma, TREE_NODES)
    return UncertaintyDrafter(drafter, selector, is_coupled=config.rule == "coupled"), nodes
