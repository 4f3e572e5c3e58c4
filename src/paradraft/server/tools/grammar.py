"""Grammars of answers with calls: of nothing but calls, and of text whose calls keep to their schemas."""

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


def grammar_of_calls(use: ToolUse) -> Grammar | None:
    """Return what holds an answer to its tools, None if nothing has to; raise ApiError for what cannot be enforced.

    Where a call has to be made, arguments keep to the schema of every tool. Otherwise the answer is held only if a tool
    is strict, and the arguments of tools that are not may be any object.
    """
    if use.must_call:
        start, checked = _forced(use), {tool.function.name for tool in use.tools}
    elif any(tool.function.strict for tool in use.tools):
        start, checked = _free(use), {tool.function.name for tool in use.tools if tool.function.strict}
    else:
        return None
    rules = [start, f"call: {' | '.join(f'call_{index}' for index in range(len(use.tools)))}"]
    for index, tool in enumerate(use.tools):
        schema = _parameters(tool) if tool.function.name in checked else {"type": "object"}
        rules += [
            f"call_{index}: {_text(_head(use.form, tool))} arguments_{index} {_text('}')}",
            f"arguments_{index}: %json {json.dumps(schema | _SETTINGS)}",
        ]
    try:
        return Grammar.of_text("\n".join(rules))
    except ConfigError as error:
        raise ApiError(400, f"tools: {error}", param="tools", code="invalid_value") from error


def _forced(use: ToolUse) -> str:
    """Return the rule of an answer of calls alone; the prompt ends with what opens the first one."""
    more = f"({_text(use.form.forced_between)} call){{0,{_MOST_CALLS - 1}}}" if use.several else ""
    return f"start: {_text('[')} call {more} {_text(']')}" if use.form.is_listed else f"start: call {more}"


def _free(use: ToolUse) -> str:
    """Return the rules of text with calls in it, or of calls without an opening instead of text."""
    form, limit = use.form, _MOST_CALLS if use.several else 1
    if form.starts_bare:
        more = f"({_text(form.forced_between)} call){{0,{limit - 1}}}" if limit > 1 else ""
        return f"start: call {more} | TEXT\nTEXT: /(?s:.+)/ & ~/\\s*\\{{(?s:.*)/"
    if not use.marks_are_text:
        raise ApiError(
            400,
            "tools: this model opens calls with a control token, so strict is kept only where a call is forced. Set "
            "tool_choice, or leave strict out.",
            param="tools",
            code="unsupported",
        )
    opening = form.opening.replace("[", "\\[").replace("]", "\\]")
    call = f'until_call "\\n"? call "\\n"? {_text(form.closing)}'
    return (
        f"start: ({call}){{0,{limit}}} TEXT?\n"
        f"until_call[lazy]: /(?s:.*){opening}/\n"
        f"TEXT: /(?s:.+)/ & ~/(?s:.*){opening}(?s:.*)/"
    )


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
