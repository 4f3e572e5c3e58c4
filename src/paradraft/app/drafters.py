"""The table of drafters: a built-in method by its name, or else a model that drafts for the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING

from paradraft.app.config import AUTO, Config
from paradraft.app.guessers import COMBINING, LOOKUPS, TABLE, build_combined, build_table_drafter, folder_names
from paradraft.app.opened import build_network_drafter
from paradraft.app.running import running_of
from paradraft.core.errors import ConfigError, ModelError
from paradraft.core.ports import Drafter, LayeredTarget
from paradraft.drafters.candidates import DraftHeat
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.drafters.plain import PlainDrafter
from paradraft.drafters.vocabulary import VocabularyMap, require_same
from paradraft.kv.pages import PageCache
from paradraft.models.load import LoadedModel, load_model
from paradraft.verify.rules import Rule
from paradraft.verify.tree import Shape

if TYPE_CHECKING:
    from paradraft.app.networks import Opened

# One line for each method that needs no weights of its own.
METHODS: Mapping[str, Callable[[Config], Drafter]] = MappingProxyType(
    {
        "none": lambda _: PlainDrafter(),
        **LOOKUPS,
    }
)

EARLY_EXIT = "early-exit"  # the target's own first layers
NAMES = (AUTO, *METHODS, TABLE, *COMBINING, EARLY_EXIT)  # everything that is neither a folder nor a model


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """A drafter and the budget it is given."""

    drafter: Drafter
    gamma: int
    nodes: int


def drafter_names(config: Config) -> tuple[str, ...]:
    """Return every drafter that the configuration names; those that are folders of networks are opened first."""
    return folder_names(config)


def build_drafter(config: Config, target: LoadedModel, rule: Rule, loaded: ExitStack, opened: Opened) -> Drafting:
    """Return the configured drafter, checked against the target and the rule; its weights are freed by `loaded`.

    Raises ConfigError for a combination that cannot work, ModelError and AlignmentError for a draft model.
    """
    if config.drafter in opened:
        network = build_network_drafter(config.drafter, opened, config, target, rule, loaded)
        return Drafting(drafter=network, gamma=config.gamma, nodes=config.draft_nodes or config.gamma)
    if config.drafter in COMBINING:
        combined, nodes = build_combined(config, target, rule, loaded, opened)
        return Drafting(drafter=combined, gamma=config.gamma, nodes=nodes)
    if config.drafter == TABLE:
        return Drafting(drafter=build_table_drafter(config, target), gamma=config.gamma, nodes=config.gamma)
    if config.drafter in METHODS:
        gamma = 0 if config.drafter == "none" else config.gamma
        return Drafting(drafter=METHODS[config.drafter](config), gamma=gamma, nodes=gamma)
    return _build_model_drafter(config, target, rule, loaded)


def _build_model_drafter(config: Config, target: LoadedModel, rule: Rule, loaded: ExitStack) -> Drafting:
    if config.draft_branching and rule.shape is not Shape.TREE:
        raise ConfigError(
            f"draft_branching={list(config.draft_branching)} makes trees, and the rule {rule.name!r} checks chains.",
            remedy="Leave draft_branching out, or use the rule coupled or recursive.",
        )
    model = _shortened(config, target) if config.drafter == EARLY_EXIT else _load_draft_model(config)
    loaded.callback(model.target.close)
    limits = model.target.limits
    drafter = ModelDrafter(
        target=model.target,
        pages=PageCache(num_pages=limits.num_pages, page_size=limits.page_size),
        vocab_size=target.target.limits.vocab_size,
        mapping=_mapping(config, target, model),
        options=ModelDrafterOptions(
            branching=config.draft_branching,
            is_sampled=rule.reads_draft_laws,
            heat=DraftHeat(
                temperature=config.draft_temperature,
                eos_temperature=config.draft_eos_temperature,
                eos_ids=target.tokenizer.eos_ids,
            ),
            max_step_tokens=config.max_step_tokens,
        ),
        source=EARLY_EXIT if config.drafter == EARLY_EXIT else "model",
    )
    gamma, nodes = _budget(config)
    return Drafting(drafter=drafter, gamma=gamma, nodes=nodes)


def _shortened(config: Config, target: LoadedModel) -> LoadedModel:
    """Return the target's first layers as a model of their own."""
    if not isinstance(target.target, LayeredTarget):
        raise ConfigError(
            f"drafter={EARLY_EXIT} needs the built-in decoder, and {target.target.limits.name} runs on "
            f"{target.target.limits.runner}.",
            remedy="Use another drafter for this model.",
        )
    limits = target.target.limits
    runner = target.target.first_layers(config.draft_layers, num_pages=limits.num_pages, page_size=limits.page_size)
    return replace(target, target=runner)


def _load_draft_model(config: Config) -> LoadedModel:
    try:
        return load_model(
            config.drafter,
            revision=config.draft_revision,
            running=running_of(config),
            num_pages=-(-config.kv_tokens // config.page_size),
            page_size=config.page_size,
        )
    except ModelError as error:
        methods = ", ".join(NAMES)
        raise ModelError(
            f"drafter: {error.problem}", remedy=f"{error.remedy} Methods without weights: {methods}."
        ) from error


def _mapping(config: Config, target: LoadedModel, draft: LoadedModel) -> VocabularyMap | None:
    if config.draft_vocabulary == "mapped":
        return VocabularyMap.require(target.tokenizer, draft.tokenizer)
    require_same(target.tokenizer, draft.tokenizer)
    return None


def _budget(config: Config) -> tuple[int, int]:
    """Return depth and nodes: a tree needs room for all its levels."""
    if not config.draft_branching:
        return config.gamma, config.gamma
    depth = min(config.gamma, len(config.draft_branching))
    return depth, sum(accumulate(config.draft_branching[:depth], mul))
