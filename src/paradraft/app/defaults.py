"""What drafts when nobody names a drafter: all that costs no pass, in one tree, with what ships for the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from paradraft.app.config import AUTO, MERGED, NO_TABLE, Config

# Files in paradraft/shipped by the built-in model whose answers they were counted on.
TABLES: Mapping[str, str] = MappingProxyType({"smollm2-135m": "smollm2-135m.table"})


def settled(config: Config) -> Config:
    """Return the configuration with what `auto` stands for: the merged tree, and the table that ships for the model."""
    drafter = MERGED if config.drafter == AUTO else config.drafter
    if config.draft_table != AUTO:
        return replace(config, drafter=drafter)
    shipped = shipped_table(config.model)
    return replace(config, drafter=drafter, draft_table=NO_TABLE if shipped is None else str(shipped))


def shipped_table(model: str) -> Path | None:
    """Return the table that ships for a built-in model, None if there is none."""
    name = TABLES.get(model)
    return None if name is None else Path(str(files("paradraft") / "shipped" / name))
