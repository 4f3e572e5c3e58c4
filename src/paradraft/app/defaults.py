"""What drafts when nobody names a drafter: one tree out of all that costs no pass and of what ships for the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from paradraft.app.config import AUTO, MERGED, NETWORK, NOTHING, Config
from paradraft.core.errors import ConfigError

# Files and folders in paradraft/shipped by the built-in model for which they were made.
TABLES: Mapping[str, str] = MappingProxyType({"smollm2-135m": "smollm2-135m.table"})
NETWORKS: Mapping[str, str] = MappingProxyType({"smollm2-135m": "smollm2-135m-dspark"})


def settled(config: Config) -> Config:
    """Return the configuration with what `auto` stands for: the merged tree, and what ships for the model.

    The source `network` becomes the folder that it stands for, or is left out. Raises ConfigError if none is left.
    """
    table = config.draft_table if config.draft_table != AUTO else _path(shipped_table(config.model))
    network = config.draft_network if config.draft_network != AUTO else _path(shipped_network(config.model))
    return replace(
        config,
        drafter=MERGED if config.drafter == AUTO else config.drafter,
        draft_table=table,
        draft_network=network,
        draft_sources=_sources(config.draft_sources, network),
    )


def shipped_table(model: str) -> Path | None:
    """Return the table that ships for a built-in model, None if there is none."""
    return _shipped(TABLES.get(model))


def shipped_network(model: str) -> Path | None:
    """Return the drafter folder that ships for a built-in model, None if there is none."""
    return _shipped(NETWORKS.get(model))


def _shipped(name: str | None) -> Path | None:
    path = None if name is None else Path(str(files("paradraft") / "shipped" / name))
    return path if path is not None and path.exists() else None


def _path(found: Path | None) -> str:
    return NOTHING if found is None else str(found)


def _sources(names: tuple[str, ...], network: str) -> tuple[str, ...]:
    chosen = [network if name == NETWORK else name for name in names if name != NETWORK or network != NOTHING]
    if not chosen:
        raise ConfigError(
            "draft_sources names network alone, and there is none for this model.",
            remedy="Name its folder as draft_network, or another source.",
        )
    return tuple(dict.fromkeys(chosen))
