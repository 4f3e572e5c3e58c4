"""What a request does with tools: which may or must be called, and how the model writes that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.core.ports import Tokenizer
from paradraft.server.errors import ApiError
from paradraft.server.schema.tools import NamedTool, Tool, ToolChoice
from paradraft.server.tools.formats import FORMATS, HERMES, ToolFormat, format_shown_by


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolUse:
    """The tools of one request. must_call: the answer is nothing but calls, and a grammar sees to it."""

    form: ToolFormat
    tools: tuple[Tool, ...]  # which may be called
    described: tuple[Tool, ...]  # which the prompt tells of
    template_knows: bool  # whether the chat template describes tools by itself
    marks_are_text: bool  # whether calls open with text rather than with a control token
    must_call: bool = False
    several: bool = True  # whether one answer may hold several calls

    @property
    def names(self) -> frozenset[str]:
        """Return what may be called."""
        return frozenset(tool.function.name for tool in self.tools)


def tool_use_of(
    tools: Sequence[Tool] | None,
    tokenizer: Tokenizer,
    *,
    named_format: str | None,
    choice: ToolChoice | None = None,
    several: bool = True,
) -> ToolUse | None:
    """Return what a request does with tools, None if it does nothing with them; raise ApiError where it cannot.

    named_format: the operator's word for how the model writes calls, instead of what its chat template shows.
    """
    _check(tools or (), choice)
    if not tools or choice == "none":
        return None
    knows = tokenizer.template_knows_tools
    chosen = tools
    if isinstance(choice, NamedTool):
        chosen = [tool for tool in tools if tool.function.name == choice.function.name]
    form = _format(tokenizer, named_format) if knows else HERMES
    return ToolUse(
        form=form,
        tools=tuple(chosen),
        described=tuple(tools),
        template_knows=knows,
        marks_are_text=not any(map(tokenizer.is_special, tokenizer.encode(form.opening, add_special=False))),
        must_call=choice not in (None, "auto"),
        several=several and not isinstance(choice, NamedTool),
    )


def _check(tools: Sequence[Tool], choice: ToolChoice | None) -> None:
    names = [tool.function.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ApiError(400, f"tools: there are two functions called {twice!r}.", param="tools", code="invalid_value")
    if choice not in (None, "none") and not tools:
        raise ApiError(400, "tool_choice: there are no tools to choose.", param="tool_choice", code="invalid_value")
    if isinstance(choice, NamedTool) and choice.function.name not in names:
        raise ApiError(
            400,
            f"tool_choice: {choice.function.name!r} is none of the tools.",
            param="tool_choice",
            code="invalid_value",
        )


def _format(tokenizer: Tokenizer, named: str | None) -> ToolFormat:
    found = format_shown_by(tokenizer.chat_template or "") if named is None else FORMATS[named]
    if found is None:
        raise ApiError(
            400,
            "tools: the model's chat template writes calls in a format that this server does not know. "
            f"If it is one of {', '.join(FORMATS)} after all, start the server with --tool-format.",
            param="tools",
            code="unsupported",
        )
    return found
