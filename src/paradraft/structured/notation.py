"""From a request's grammar to the one notation that is compiled: the library's dialect of Lark."""

from __future__ import annotations

import json
import re

from llguidance import grammar_from, regex_to_lark

from paradraft.core.errors import RequestRefused
from paradraft.core.grammar import Grammar, GrammarKind

# Between two parts of a JSON text. Without a bound a model that has lost its way writes blanks to the end.
_BLANKS = r"[\x20\x0A\x0D\x09]{1,32}"
# Unforced, the model itself chooses among all spellings of a text that is certain. Forced, the library would spell it
# out in advance, a million bytes at a stretch if the grammar says so, and a step would wait for it.
_OPTIONS = '%llguidance {"no_forcing": true}'
_SETTINGS = "x-guidance"
# Of the library's dialect: what would change how a request is sampled, and tokens that are no text.
_LITERALS = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*|%json[^\n]*')
_FOREIGN = re.compile(r"\b(?:temperature|max_tokens)\s*=|<[^<>\s]+>")


def lark_of(grammar: Grammar) -> str:
    """Return the grammar as the library's matcher takes it; raises RequestRefused for a text that cannot be read."""
    return f"{_rules_of(grammar)}\n{_OPTIONS}\n"


def _rules_of(grammar: Grammar) -> str:
    match grammar.kind:
        case GrammarKind.JSON_OBJECT:
            return _json_rule({"type": "object"})
        case GrammarKind.JSON_SCHEMA:
            return _json_rule(json.loads(grammar.text))
        case GrammarKind.REGEX:
            return f"start: /{regex_to_lark(grammar.text, use_ascii='')}/"
        case GrammarKind.GRAMMAR:
            return _read(grammar.text)


def _json_rule(schema: dict[str, object]) -> str:
    if _SETTINGS in schema:
        raise RequestRefused(
            f"The JSON schema has {_SETTINGS}, which says how a library compiles it and nothing of the answer.",
            remedy="Leave it out.",
        )
    settings = {"whitespace_pattern": _BLANKS, "lenient": False, "coerce_one_of": False}
    return f"start: %json {json.dumps(schema | {_SETTINGS: settings})}"


def _read(text: str) -> str:
    """Return a grammar in Lark as it stands, and one in GBNF rewritten."""
    try:
        lark = grammar_from("grammar", text)
    except ValueError as error:
        raise RequestRefused(f"The grammar cannot be read: {error}.", remedy="Correct or simplify it.") from error
    foreign = _FOREIGN.search(_LITERALS.sub("", lark))
    if foreign is not None:
        raise RequestRefused(
            f"The grammar has {foreign[0]!r}, which says nothing of the answer's text.",
            remedy="Leave it out; sampling parameters have their own fields.",
        )
    return lark
