"""What a text with calls in it consists of."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of a tool; arguments is a JSON object as text."""

    name: str
    arguments: str


Part = str | Call


def calls_in(value: str, name: str, known: Collection[str]) -> list[Call] | None:
    """Return the calls that a JSON text stands for, None if it is not JSON or no call of a known tool.

    Without a name the text is an object with `name` and `arguments` (or `parameters`), or a list of such objects; with
    one it is the arguments themselves.
    """
    try:
        found = json.loads(value, parse_constant=_refuse_constant)
        if name:
            return [_call(name, found, known)]
        return [
            _call(each["name"], _arguments(each), known) for each in (found if isinstance(found, list) else [found])
        ]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _arguments(call: dict[str, object]) -> object:
    given = call.get("arguments", call.get("parameters", {}))
    # Some models write the arguments as a text that holds JSON.
    return json.loads(given, parse_constant=_refuse_constant) if isinstance(given, str) else given


def _call(name: object, arguments: object, known: Collection[str]) -> Call:
    if not isinstance(name, str) or name not in known or not isinstance(arguments, dict):
        raise ValueError("no call of a known tool")
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")  # half a character cannot be sent
    return Call(name=name, arguments=text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
