"""What an answer has to look like: the record a request brings, and the ports that enforce it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from paradraft.core.arrays import BoolArray, IntArray
from paradraft.core.errors import ConfigError

MAX_GRAMMAR_BYTES = 65_536


class GrammarKind(StrEnum):
    """How a grammar is written."""

    JSON_OBJECT = "json_object"  # any JSON object; has no text
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"  # the whole answer matches
    GRAMMAR = "grammar"  # Lark with the rule `start`, or GBNF with the rule `root`


_TITLES = {
    GrammarKind.JSON_OBJECT: "JSON object",
    GrammarKind.JSON_SCHEMA: "JSON schema",
    GrammarKind.REGEX: "regular expression",
    GrammarKind.GRAMMAR: "grammar",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Grammar:
    """A constraint on an answer: its kind, and its text in that kind's own notation.

    Two grammars are equal where kind and text are. Whether a text means anything is for the engine to say when it
    checks the request (Grammars.compile). Raises ConfigError for an unknown kind, a text that is empty, too long or no
    valid Unicode, and a schema that is no JSON object.
    """

    kind: GrammarKind
    text: str = ""

    def __post_init__(self) -> None:
        """Check kind and text, so far as that needs no vocabulary."""
        if self.kind not in tuple(GrammarKind):
            raise ConfigError(
                f"The grammar kind {self.kind!r} is not known.", remedy=f"Choose one of {', '.join(GrammarKind)}."
            )
        object.__setattr__(self, "kind", GrammarKind(self.kind))
        _check_text(self.kind, self.text)
        if self.kind is GrammarKind.JSON_SCHEMA:
            _check_schema(self.text)

    @property
    def title(self) -> str:
        """Return what the grammar is called in messages."""
        return _TITLES[self.kind]

    @staticmethod
    def json_object() -> Grammar:
        """Return the grammar of any JSON object."""
        return Grammar(kind=GrammarKind.JSON_OBJECT)

    @staticmethod
    def json_schema(schema: Mapping[str, Any] | str) -> Grammar:
        """Return the grammar of what a JSON schema describes, given as a mapping or as its text.

        Properties come in the order in which the schema names them. Raises ConfigError.
        """
        return Grammar(kind=GrammarKind.JSON_SCHEMA, text=schema if isinstance(schema, str) else _written(schema))

    @staticmethod
    def regex(pattern: str) -> Grammar:
        """Return the grammar of texts that a regular expression matches from end to end."""
        return Grammar(kind=GrammarKind.REGEX, text=pattern)

    @staticmethod
    def of_text(text: str) -> Grammar:
        """Return a grammar written in Lark (first rule `start`) or GBNF (first rule `root`)."""
        return Grammar(kind=GrammarKind.GRAMMAR, text=text)

    @staticmethod
    def choice(options: Sequence[str]) -> Grammar:
        """Return the grammar of one of several texts; raises ConfigError unless there are some and none is empty."""
        given = [] if isinstance(options, str) else list(options)
        if not given or not all(isinstance(option, str) and option for option in given):
            raise ConfigError(
                f"The choices {options!r} cannot be used.", remedy="Give a list of texts, none of them empty."
            )
        alternatives = " | ".join(json.dumps(option, ensure_ascii=False) for option in given)
        return Grammar.of_text(f"start: {alternatives}")


class Matcher(Protocol):
    """Where one row's answer may go on. What it says depends on its arguments alone, whatever it was asked before."""

    def allowed(self, output: IntArray) -> BoolArray:
        """Return which tokens may follow the tokens generated so far, [V], at least one; not to be written to.

        Behind a complete answer that is end-of-sequence alone. Raises ProtocolError where the output has left the
        grammar, or where the library gives up.
        """
        ...

    def count_allowed(self, output: IntArray, path: Sequence[int]) -> int:
        """Return how many of a path's tokens, from its first on, could follow the output one after the other."""
        ...


class Grammars(Protocol):
    """Compiles grammars for one vocabulary and owns each row's place in its grammar."""

    def compile(self, grammar: Grammar) -> None:
        """Make sure that the grammar can be enforced; raises RequestRefused with the reason where it cannot.

        The work is bounded, and its result is kept for later requests. Unlike all else here this may be called from
        any thread, and the interpreter is free meanwhile: a server compiles in a thread of its own before it adds the
        request, and the engine then finds the grammar ready.
        """
        ...

    def matcher(self, row: int, grammar: Grammar) -> Matcher:
        """Return the matcher of a row until it is forgotten; a new one whenever the row brings another grammar."""
        ...

    def forget(self, rows: IntArray) -> None:
        """Drop the matchers of rows that ended or were preempted; a matcher made later starts from the history."""
        ...


def _check_text(kind: GrammarKind, text: object) -> None:
    title = _TITLES[kind]
    if not isinstance(text, str):
        raise ConfigError(f"The text of a {title} is {text!r}.", remedy="Give a str.")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"The {title} has half a character (a lone surrogate) at {error.start}.", remedy="Give valid Unicode."
        ) from error
    if size > MAX_GRAMMAR_BYTES:
        raise ConfigError(
            f"The {title} has {size} bytes, and {MAX_GRAMMAR_BYTES} are allowed.", remedy="Make it smaller."
        )
    is_wordless = kind is GrammarKind.JSON_OBJECT
    if is_wordless == bool(text.strip()):
        raise ConfigError(
            f"The {title} has the text {text[:40]!r}.",
            remedy="Leave the text empty." if is_wordless else "Say what the answer looks like.",
        )


def _check_schema(text: str) -> None:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The JSON schema {text[:40]!r} is not JSON ({error}).", remedy="Correct it, or nest it less deeply."
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(
            f"The JSON schema {text[:40]!r} is no JSON object.", remedy='Write it like {"type": "object"}.'
        )


def _written(schema: object) -> str:
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"The JSON schema cannot be written as JSON ({error}).", remedy="Use plain values."
        ) from error
