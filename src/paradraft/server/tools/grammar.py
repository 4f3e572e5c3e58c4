"""The grammar of answers that are nothing but calls."""

from __future__ import annotations

import json

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import Grammar
from paradraft.server.errors import ApiError
from paradraft.server.schema.tools import Tool
from paradraft.server.tools.formats import ToolFormat
from paradraft.server.tools.use import ToolUse

_MOST_CALLS = 16
# Between two parts of a JSON text. Without a bound a model that has lost its way writes blanks to the end.
_SETTINGS = {"x-guidance": {"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,32}", "lenient": False}}
# Keywords beside which `properties` does not say it all. Without one a function gets the arguments it describes alone.
_OPEN = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "additionalProperties"})


def grammar_of_calls(use: ToolUse) -> Grammar:
    """Return the grammar of a call of one of the tools, or of several; raise ApiError for a tool it cannot have.

    The prompt ends with what opens a call, so an answer begins inside one. Each tool's arguments keep to its schema.
    """
    calls = " | ".join(f"call_{index}" for index in range(len(use.tools)))
    rules = [f"start: {_sequence(use)}", f"call: {calls}"]
    for index, tool in enumerate(use.tools):
        rules += [
            f"call_{index}: {_text(_head(use.form, tool))} arguments_{index} {_text('}')}",
            f"arguments_{index}: %json {json.dumps(_parameters(tool) | _SETTINGS)}",
        ]
    try:
        return Grammar.of_text("\n".join(rules))
    except ConfigError as error:
        raise ApiError(400, f"tools: {error}", param="tools", code="invalid_value") from error


def _sequence(use: ToolUse) -> str:
    between = f"({_text(use.form.forced_between)} call){{0,{_MOST_CALLS - 1}}}" if use.several else ""
    if use.form.is_listed:
        return f"{_text('[')} call {between} {_text(']')}"
    return f"call {between}"


def _head(form: ToolFormat, tool: Tool) -> str:
    return f'{{"name": "{tool.function.name}", "{form.arguments_key}": '


def _parameters(tool: Tool) -> dict[str, object]:
    parameters = tool.function.parameters
    if parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if parameters.get("type", "object") != "object" or "x-guidance" in parameters:
        raise ApiError(
            400,
            f"tools: the parameters of {tool.function.name!r} are no JSON schema of an object.",
            param="tools",
            code="invalid_value",
        )
    closed = {"additionalProperties": False} if parameters.get("properties") and not _OPEN & parameters.keys() else {}
    return {"type": "object", **closed, **parameters}


def _text(literal: str) -> str:
    return json.dumps(literal)
