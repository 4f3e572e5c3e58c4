"""Chat templates: Jinja2 in its immutable sandbox, with the filters and globals that model publishers count on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paradraft.core.errors import ModelError, RequestRefused

_MESSAGES = "Send messages as objects with a text `role` and a text `content`."
Now = Callable[[], datetime]


class ChatTemplate:
    """A compiled template. It is code from the model's publisher, so it runs in a sandbox and sees texts only."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], *, now: Now = datetime.now) -> None:
        """Compile; special_tokens are the variables bos_token, eos_token and the like.

        Raises ModelError if the source is not a valid template.
        """
        self.source = source
        self._special_tokens = dict(special_tokens)
        try:
            self._template = _environment(now).from_string(source)
        except jinja2.TemplateError as error:
            raise ModelError(
                f"The model's chat template cannot be compiled ({error}).",
                remedy="Send plain text instead of messages, or repair chat_template.",
            ) from error

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Return the conversation as text; raise RequestRefused if the template does not take these messages."""
        _check(messages)
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise RequestRefused(
                f"The model's chat template refuses these messages ({error}).",
                remedy="Check the roles and their order; some models take no system message.",
            ) from error


class _Generation(Extension):
    """The block `generation` marks what the assistant says, for training; here it renders as its content."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's content as a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _environment(now: Now) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: now().strftime(form)
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without escaping characters for HTML, which jinja2's own filter does."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _check(messages: Sequence[Mapping[str, str]]) -> None:
    if not messages:
        raise RequestRefused("messages is empty.", remedy=_MESSAGES)
    for index, message in enumerate(messages):
        for key in ("role", "content"):
            if not isinstance(message, Mapping) or not isinstance(message.get(key), str):
                raise RequestRefused(f"messages[{index}] has no text for {key}: {message!r}.", remedy=_MESSAGES)
