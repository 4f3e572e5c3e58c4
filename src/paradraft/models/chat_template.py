"""Chat templates: Jinja2 in its immutable sandbox, with the filters and globals that model publishers count on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paradraft.core.errors import ModelError, RequestRefused

_MESSAGES = "Send messages as objects with a text `role` and a text `content`."
_MOST_SECONDS = 5.0  # of the rendering thread's own time, so that a busy machine refuses nothing an idle one takes
_MOST_CHARACTERS = 16_000_000
_LOOKS = 32  # steps of a template between two looks at the clock, which takes some microseconds itself
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
        budget = _Budget(max_seconds, max_characters)
        token = _budget.set(budget)
        try:
            return budget.joined(
                self._template.generate(
                    messages=[dict(message) for message in messages],
                    tools=[dict(tool) for tool in tools] if tools else None,
                    documents=None,
                    add_generation_prompt=add_generation_prompt,
                    **self._special_tokens,
                )
            )
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise RequestRefused(
                f"The model's chat template refuses these messages ({error}).",
                remedy="Check the roles and their order; some models take no system message.",
            ) from error
        finally:
            _budget.reset(token)


class _Budget:
    """What one rendering may take."""

    def __init__(self, max_seconds: float, max_characters: int) -> None:
        self.max_characters = max_characters
        self._ends_at = time.thread_time() + max_seconds
        self._num_spent = 0

    def spend(self, value: object = None) -> None:
        """Raise RequestRefused once time is over, or for a text that is too long."""
        self._num_spent += 1
        if self._num_spent % _LOOKS == 0 and time.thread_time() > self._ends_at:
            raise RequestRefused("The model's chat template takes too long for these messages.", remedy=_FEWER)
        if isinstance(value, str) and len(value) > self.max_characters:
            raise RequestRefused(
                f"The model's chat template makes more than {self.max_characters} characters of these messages.",
                remedy=_FEWER,
            )

    def joined(self, chunks: Iterable[str]) -> str:
        """Return the chunks as one text."""
        parts, length = [], 0
        for chunk in chunks:
            length += len(chunk)
            parts.append(chunk)
            self.spend(chunk if length <= self.max_characters else "".join(parts))
        return "".join(parts)


_FEWER = "Send fewer or shorter messages."
_budget: ContextVar[_Budget] = ContextVar("paradraft_chat_template")  # each thread has its own


class _BoundedSandbox(ImmutableSandboxedEnvironment):
    """The immutable sandbox, which looks at its budget wherever a template reads or calls something."""

    intercepted_binops = frozenset({"*", "+"})

    def getattr(self, obj: object, attribute: str) -> object:
        """Read an attribute."""
        _spend()
        return super().getattr(obj, attribute)

    def getitem(self, obj: object, argument: object) -> object:
        """Read an item."""
        _spend()
        return super().getitem(obj, argument)

    def call(self, context: Context, obj: object, /, *args: object, **kwargs: object) -> object:
        """Call what the sandbox allows to be called."""
        result = super().call(context, obj, *args, **kwargs)
        _spend(result)
        return result

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Add or multiply; texts are multiplied only as far as the budget goes."""
        if (
            operator == "*"
            and isinstance(left, str)
            and isinstance(right, int)
            and len(left) * right > _MOST_CHARACTERS
        ):
            raise RequestRefused("The model's chat template repeats a text too often.", remedy=_FEWER)
        result = super().call_binop(context, operator, left, right)
        _spend(result)
        return result


def _spend(value: object = None) -> None:
    budget = _budget.get(None)
    if budget is not None:
        budget.spend(value)


class _Generation(Extension):
    """The block `generation` marks what the assistant says, for training; here it renders as its content."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's content as a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _environment(now: Now) -> _BoundedSandbox:
    environment = _BoundedSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension])
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
