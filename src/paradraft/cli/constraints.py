"""From the command line to a grammar."""

from __future__ import annotations

from pathlib import Path

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import Grammar


def read_grammar(json_schema: Path | None, regex: str | None, grammar: Path | None) -> Grammar | None:
    """Return the grammar that is asked for, None without one.

    Raises ConfigError where several are, for a file that cannot be read, and as Grammar does.
    """
    given = {"--json-schema": json_schema, "--regex": regex, "--grammar": grammar}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} are given.", remedy="An answer follows one of them; leave one.")
    if json_schema is not None:
        return Grammar.json_schema(_read(json_schema, "--json-schema"))
    if regex is not None:
        return Grammar.regex(regex)
    return None if grammar is None else Grammar.of_text(_read(grammar, "--grammar"))


def _read(file: Path, option: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {file} cannot be read ({error}).", remedy="Name a text file.") from error
