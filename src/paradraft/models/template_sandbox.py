"""A sandbox for templates that bounds their time and what they write, beside what they may reach."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextvars import ContextVar

from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paradraft.core.errors import RequestRefused

_LOOKS = 32  # steps of a template between two looks at the clock, which takes some microseconds itself
_FEWER = "Send fewer or shorter messages."


class Budget:
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

    def multiply(self, text: str, times: int) -> None:
        """Raise RequestRefused for a text that would be too long if it were repeated so often."""
        if len(text) * times > self.max_characters:
            raise RequestRefused("The model's chat template repeats a text too often.", remedy=_FEWER)


_budget: ContextVar[Budget | None] = ContextVar("paradraft_chat_template", default=None)  # each thread has its own


def join_within(chunks: Iterable[str], budget: Budget) -> str:
    """Return as one text what a template yields, rendering it within a budget."""
    token = _budget.set(budget)
    try:
        parts, length = [], 0
        for chunk in chunks:
            length += len(chunk)
            parts.append(chunk)
            budget.spend(chunk if length <= budget.max_characters else "".join(parts))
        return "".join(parts)
    finally:
        _budget.reset(token)


class BoundedSandbox(ImmutableSandboxedEnvironment):
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
        """Add or multiply; texts are repeated only as far as the budget goes."""
        budget = _budget.get()
        if budget is not None and operator == "*" and isinstance(left, str) and isinstance(right, int):
            budget.multiply(left, right)
        result = super().call_binop(context, operator, left, right)
        _spend(result)
        return result


def _spend(value: object = None) -> None:
    budget = _budget.get()
    if budget is not None:
        budget.spend(value)
