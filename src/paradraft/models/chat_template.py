"""Chat templates: Jinja2 in its immutable sandbox, with the filters and globals that model publishers count on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser

from paradraft.core.errors import ModelError, RequestRefused
from paradraft.models.template_sandbox import BoundedSandbox, Budget, join_within

_MESSAGES = "Send messages as objects with a text `role` and a text `content`."
_MOST_SECONDS = 5.0  # of the rendering thread's own time, so that a busy machine refuses nothing an idle one takes
_MOST_CHARACTERS = 16_000_000
_MOST_DEPTH = 64  # of lists and objects inside messages and tools
Message = Mapping[str, object]
Now = Callable[[], datetime]


class ChatTemplate:
    """A compiled template. It is code from the model's publisher, so it runs in a sandbox and sees plain values."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], *, now: Now = datetime.now) -> None:
        """Compile; special_tokens are the variables bos_token, eos_token and the like.

        Raises ModelError if the source is not a valid template.
        """
        self.source = source
        self._special_tokens = dict(special_tokens)
        environment = _environment(now)
        try:
            self._template = environment.from_string(source)
            self._variables = meta.find_undeclared_variables(environment.parse(source))
        except jinja2.TemplateError as error:
            raise ModelError(
                f"The model's chat template cannot be compiled ({error}).",
                remedy="Send plain text instead of messages, or repair chat_template.",
            ) from error

    @property
    def knows_tools(self) -> bool:
        """Whether the template writes descriptions of tools."""
        return "tools" in self._variables

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Message] | None = None,
        max_seconds: float = _MOST_SECONDS,
        max_characters: int = _MOST_CHARACTERS,
    ) -> str:
        """Return the conversation as text.

        tools are descriptions of functions in OpenAI's shape. Raises RequestRefused if the template does not take these
        messages, or takes more than so many seconds of computing or writes more than so many characters for them.
        """
        _check(messages)
        _check_depth(messages, tools)
        chunks = self._template.generate(
            messages=[dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] if tools else None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **self._special_tokens,
        )
        try:
            return join_within(chunks, Budget(max_seconds, max_characters))
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
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


def _environment(now: Now) -> BoundedSandbox:
    environment = BoundedSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension])
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


def _check(messages: Sequence[Message]) -> None:
    if not messages:
        raise RequestRefused("messages is empty.", remedy=_MESSAGES)
    for index, message in enumerate(messages):
        for key in ("role", "content"):
            if not isinstance(message, Mapping) or not isinstance(message.get(key), str):
                raise RequestRefused(f"messages[{index}] has no text for {key}: {message!r}.", remedy=_MESSAGES)


def _check_depth(*values: object) -> None:
    level: list[object] = list(values)
    for _ in range(_MOST_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise RequestRefused(
        f"Messages or tools are nested more than {_MOST_DEPTH} levels deep.", remedy="Describe tools less deeply."
    )


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()
