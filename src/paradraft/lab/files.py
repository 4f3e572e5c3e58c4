"""Writing results: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from paradraft.core.errors import ConfigError


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that a reader never sees half of it; raise ConfigError where that is impossible."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error}).", remedy="Choose another place.") from error
