"""The ways in which models write calls, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFormat:
    """How one family of models writes a call.

    opening and closing surround a call (either may be empty: the whole text is then calls); between separates two calls
    that follow without a new opening. is_listed: one opening stands before a list of calls. header matches a name
    written before the arguments. markers: control tokens that are part of the format. shown: what in the source of a
    chat template gives the format away; hidden: what means another format that is not known here.
    """

    name: str
    opening: str
    closing: str = ""
    between: str = ""
    starts_bare: bool = False
    is_listed: bool = False
    header: re.Pattern[str] | None = None
    forced_opening: str  # what a prompt ends with where a call has to follow
    forced_between: str  # what stands between two calls of such an answer
    arguments_key: str = "arguments"
    markers: frozenset[str] = frozenset()
    call_id_len: int = 24
    shown: str
    hidden: str | None = None


HERMES = ToolFormat(
    name="hermes",
    opening="<tool_call>",
    forced_opening="<tool_call>\n",
    forced_between="\n</tool_call>\n<tool_call>\n",
    closing="</tool_call>",
    markers=frozenset({"<tool_call>", "</tool_call>"}),
    shown="<tool_call>",
    hidden="<function=",
)
LLAMA3 = ToolFormat(
    name="llama3_json",
    opening="<|python_tag|>",
    forced_opening="",
    forced_between="; ",
    arguments_key="parameters",
    between=";",
    starts_bare=True,
    markers=frozenset({"<|python_tag|>"}),
    shown='"parameters"',
)
MISTRAL = ToolFormat(
    name="mistral",
    opening="[TOOL_CALLS]",
    forced_opening="[TOOL_CALLS]",
    forced_between=", ",
    is_listed=True,
    header=re.compile(r"\s*([a-zA-Z0-9_.-]{1,64})(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*"),
    markers=frozenset({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}),
    call_id_len=9,  # their templates take no other length
    shown="[TOOL_CALLS]",
)
FORMATS = {each.name: each for each in (HERMES, MISTRAL, LLAMA3)}


def format_shown_by(template: str) -> ToolFormat | None:
    """Return the format in which a chat template writes calls, None if it is not a known one."""
    for each in FORMATS.values():
        if each.shown in template:
            return None if each.hidden is not None and each.hidden in template else each
    return None
