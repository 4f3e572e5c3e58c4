"""Drafters that look continuations up, and those that put several drafters together, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from paradraft.app.config import MERGED, NETWORK, NOTHING, Config
from paradraft.app.opened import build_network_drafter
from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.core.ports import Drafter
from paradraft.drafters.frugal import FrugalDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.native_merged import Lookups, NativeMergedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.count import count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.file import read_table
from paradraft.drafters.table.layout import Table
from paradraft.drafters.table.recent import RecentDrafter
from paradraft.models.load import LoadedModel
from paradraft.native.guesser import KINDS
from paradraft.nets.folder.facts import tokenizer_digest
from paradraft.verify.rules import Rule
from paradraft.verify.tree import Shape

if TYPE_CHECKING:
    from paradraft.app.networks import Opened

TABLE, LADDER = "table", "ladder"
COMBINING = (MERGED, LADDER)
MERGED_WIDTH = 8  # children per node; the budget decides how many of them there is room for
MERGED_NODES = 8  # of a tree, unless draft_nodes says otherwise
NETWORK_COST = 0.3  # of a network's pass on the ladder, in plain passes

# One line for each source that needs neither weights nor a file.
LOOKUPS: Mapping[str, Callable[[Config], GuessingDrafter]] = MappingProxyType(
    {
        "ngram": lambda config: NgramDrafter(is_coupled=is_coupled(config)),
        "suffix": lambda config: SuffixDrafter(
            shared_tokens=config.suffix_shared_tokens, is_coupled=is_coupled(config)
        ),
        "recent": lambda config: RecentDrafter(is_coupled=is_coupled(config)),
    }
)


def is_coupled(config: Config) -> bool:
    """Whether rows with a temperature may draft along the noise that the target will choose with."""
    return config.rule == "coupled"


def folder_names(config: Config) -> tuple[str, ...]:
    """Return the names among the configured drafters that may be folders of networks."""
    names = config.draft_sources if config.drafter in COMBINING else (config.drafter,)
    return tuple(name for name in names if name not in LOOKUPS and name != TABLE)


def build_table_drafter(config: Config, target: LoadedModel) -> TableDrafter:
    """Return a drafter over the configured table; without one it starts empty and learns from answers.

    Raises ModelError for a table that cannot be used, AlignmentError for one of another target's tokens.
    """
    return TableDrafter(
        _table(config, target), max_learned=config.draft_learned_contexts, is_coupled=is_coupled(config)
    )


def build_combined(
    config: Config, target: LoadedModel, rule: Rule, loaded: ExitStack, opened: Opened
) -> tuple[Drafter, int]:
    """Return a merged tree or a ladder over the configured sources, and its node budget."""
    names = tuple(dict.fromkeys(config.draft_sources))
    if config.drafter == LADDER:
        sources = [_source(name, config, target, rule, loaded, opened) for name in names]
        costs = [NETWORK_COST if name in opened else 0.0 for name in names]
        vocab_size = target.target.limits.vocab_size
        ladder = LadderDrafter(sources, vocab_size=vocab_size, costs=costs, is_coupled=is_coupled(config))
        return ladder, config.draft_nodes or config.gamma
    options: dict[str, Any] = {
        "vocab_size": target.target.limits.vocab_size,
        "width": MERGED_WIDTH if rule.shape is Shape.TREE else 1,
        "is_coupled": is_coupled(config),
    }
    free = [name for name in names if name not in opened]
    networks = [_source(name, config, target, rule, loaded, opened) for name in names if name in opened]
    if not free:
        return MergedDrafter(networks, **options), _num_nodes(config)
    merged: GuessingDrafter = _native(free, config, target, options) or MergedDrafter(
        [_source(name, config, target, rule, loaded, opened) for name in free], **options
    )
    for network in networks:  # asked only where that pays
        merged = FrugalDrafter(merged, network, **options)
    return merged, _num_nodes(config)


def _num_nodes(config: Config) -> int:
    return config.draft_nodes or max(MERGED_NODES, config.gamma)


def _native(
    names: Sequence[str], config: Config, target: LoadedModel, options: Mapping[str, Any]
) -> GuessingDrafter | None:
    """Return one tree of these sources in the native core, None where it or one of them is not there."""
    if not set(names) <= set(KINDS):
        return None
    lookups = Lookups(
        kinds=tuple(names),
        table=_table(config, target) if TABLE in names else None,
        shared_tokens=config.suffix_shared_tokens,
        max_learned=config.draft_learned_contexts,
    )
    try:
        return NativeMergedDrafter(lookups, **options)
    except ModelError:
        return None


def _source(
    name: str, config: Config, target: LoadedModel, rule: Rule, loaded: ExitStack, opened: Opened
) -> GuessingDrafter:
    if name in LOOKUPS:
        return LOOKUPS[name](config)
    if name == TABLE:
        return build_table_drafter(config, target)
    if name in opened:
        return build_network_drafter(name, opened, config, target, rule, loaded)
    raise ConfigError(
        f"draft_sources names {name!r}, which is no source of guesses.",
        remedy=f"Use {', '.join([*LOOKUPS, TABLE, NETWORK])}, or a folder with a drafting network.",
    )


def _table(config: Config, target: LoadedModel) -> Table:
    vocab_size = target.target.limits.vocab_size
    if config.draft_table == NOTHING:
        return count_table([], vocab_size=vocab_size)
    table = read_table(Path(config.draft_table).expanduser(), vocab_size=vocab_size)
    counted = table.origin.tokenizer_sha256
    ours = tokenizer_digest(target.tokenizer) if counted else ""
    if counted != ours:
        raise AlignmentError(
            f"The table {config.draft_table} was counted with the tokenizer {counted[:12]}, and {config.model} has "
            f"{ours[:12]}.",
            remedy="Use a table that was counted on this target's answers.",
        )
    return table
