"""The engine's side of the protocol: a process that loads weights, answers prompts and ends, over lines of JSON.

Each request is a line on stdin, each reply a line on the stream that was stdout:

    {"do": "load", "job": {...}}                            {"ok": {facts of the engine}}
    {"do": "answer", "prompts": [[ids]], "count": 64}       {"ok": [{"tokens": [ids], "seconds": [since the request]}]}
    {"do": "close"}                                         the process ends

or {"error": "reason"}. This runs in the engine's own environment, so it uses nothing but the standard library. What the
engine prints goes to stderr, so that it cannot get into a reply.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol, TextIO


class Answers:
    """Tokens of several prompts, each with the seconds from the request until it was known."""

    def __init__(self, rows: int, count: int) -> None:
        """Start the clock. rows: prompts answered together; count: tokens of each, what comes behind is dropped."""
        self._started = perf_counter()
        self._count = count
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        self.seconds: list[list[float]] = [[] for _ in range(rows)]

    def add(self, row: int, tokens: Sequence[int]) -> None:
        """Take tokens that became known now."""
        taken = [int(token) for token in tokens[: self.room(row)]]
        self.tokens[row] += taken
        self.seconds[row] += [perf_counter() - self._started] * len(taken)

    def room(self, row: int) -> int:
        """Return how many tokens a row still needs."""
        return self._count - len(self.tokens[row])

    def unfinished(self) -> list[int]:
        """Return the rows that need more tokens."""
        return [row for row in range(len(self.tokens)) if self.room(row)]

    def content(self) -> list[dict[str, object]]:
        """Return the reply."""
        pairs = zip(self.tokens, self.seconds, strict=True)
        return [{"tokens": tokens, "seconds": [round(at, 7) for at in seconds]} for tokens, seconds in pairs]


class Engine(Protocol):
    """A loaded engine."""

    def facts(self) -> Mapping[str, object]:
        """Return versions and settings that belong to a figure."""
        ...

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, each with `count` tokens whatever they are."""
        ...


def serve(load: Callable[[Mapping[str, Any]], Engine]) -> None:
    """Answer requests until there are no more; an engine's error is a reply, not an end."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine: Engine | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "close":
            break
        try:
            if request["do"] == "load":
                engine = load(request["job"])
                _reply(replies, {"ok": dict(engine.facts())})
            elif engine is not None:
                _reply(replies, {"ok": engine.answer(request["prompts"], request["count"]).content()})
            else:
                _reply(replies, {"error": "nothing is loaded"})
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is its answer
            _reply(replies, {"error": f"{type(error).__name__}: {error}"})


def _reply(replies: TextIO, content: Mapping[str, object]) -> None:
    replies.write(json.dumps(content) + "\n")
    replies.flush()
