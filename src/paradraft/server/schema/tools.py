"""Tools as clients describe them, and calls as answers and later messages hold them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from paradraft.server.schema.base import Body

MAX_TOOLS = 128
ToolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_.-]+$")]


class Function(Body):
    """What a model may call; parameters is a JSON schema of an object, none of them if it is left out."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    """A function; other kinds of tools are OpenAI's own."""

    type: Literal["function"]
    function: Function


class NamedFunction(Body):
    """The function that has to be called."""

    name: ToolName


class NamedTool(Body):
    """Asks for a call of one function."""

    type: Literal["function"] = "function"
    function: NamedFunction


class CalledFunction(Body):
    """A call that an earlier answer made; arguments is a JSON object as text."""

    name: ToolName
    arguments: str


class ToolCall(Body):
    """A call with its id, to which the message with the result refers."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    function: CalledFunction


Tools = Annotated[list[Tool], Field(min_length=1, max_length=MAX_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool
