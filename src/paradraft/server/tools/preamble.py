"""Tools for models whose chat template knows none: they are described, called and answered in plain messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from paradraft.server.schema.tools import Tool
from paradraft.server.tools.formats import HERMES

Message = dict[str, object]

_PREAMBLE = """You can call these functions. Each line between the tags describes one as JSON:
<tools>
{tools}
</tools>
To call a function, write its name and its arguments as JSON between {opening} and {closing}:
{opening}
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
{closing}"""


def as_plain_messages(messages: Iterable[Message], tools: Sequence[Tool]) -> list[Message]:
    """Return messages of system, user and assistant alone, with the tools in the first system message."""
    preamble = _PREAMBLE.format(
        tools="\n".join(json.dumps(description_of(tool), ensure_ascii=False) for tool in tools),
        opening=HERMES.opening,
        closing=HERMES.closing,
    )
    plain: list[Message] = []
    for message in messages:
        written = _plain(message)
        if plain and message["role"] == "tool" and plain[-1].get("is_result"):
            plain[-1]["content"] = f"{plain[-1]['content']}\n{written['content']}"
        else:
            plain.append(written)
    for message in plain:
        message.pop("is_result", None)
    if plain and plain[0]["role"] == "system":
        plain[0] = plain[0] | {"content": f"{plain[0]['content']}\n\n{preamble}"}
        return plain
    return [{"role": "system", "content": preamble}, *plain]


def description_of(tool: Tool) -> Message:
    """Return a tool as chat templates and models know it."""
    function: Message = {"name": tool.function.name, "description": tool.function.description or ""}
    parameters = tool.function.parameters
    function["parameters"] = {"type": "object", "properties": {}} if parameters is None else parameters
    return {"type": "function", "function": function}


def _plain(message: Message) -> Message:
    content = message["content"]
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>", "is_result": True}
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return dict(message)
    written = [
        f"{HERMES.opening}\n{json.dumps(call['function'], ensure_ascii=False)}\n{HERMES.closing}" for call in calls
    ]
    return {"role": "assistant", "content": "\n".join([str(content), *written] if content else written)}
