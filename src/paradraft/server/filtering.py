"""Runs an operator's output filter over what requests say, beside the event loop and within a bound of time.

A filter is called once for each token that released text, in order, so neither bursts nor drafts change what it sees.
It runs on a thread of its own for each HTTP request: one that fails or takes too long ends its own request alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Protocol

from paradraft.core.events import GenerationStats, TokenEvent
from paradraft.core.filtering import Action, Filter, FilterFactory, FilterVerdict
from paradraft.core.records import FinishReason
from paradraft.server.errors import ApiError
from paradraft.server.smoothing import Numbered
from paradraft.server.token_events import joined, single_tokens

MAX_STUCK = 16  # threads whose filter has not come back; with so many no request is taken


class Judge(Protocol):
    """Says what of a request's events may go out."""

    async def judge(self, events: Numbered) -> Numbered:
        """Return what goes out now of these events, each with the number of its choice."""
        ...


class Filtering(Protocol):
    """Gives each HTTP request a judge."""

    @property
    def may_end_choices(self) -> bool:
        """Whether a choice may end here before it does in the engine: its counts then have to be told on the way."""
        ...

    @contextmanager
    def open(self, num_choices: int) -> Iterator[Judge]:
        """Yield the judge of a request with so many choices; raise ApiError where there is none to be had."""
        ...


class Unfiltered:
    """Lets everything out."""

    may_end_choices = False

    @contextmanager
    def open(self, num_choices: int) -> Iterator[Judge]:  # noqa: ARG002 - nothing is kept for a choice
        """Yield the judge, which is the same for all."""
        yield self

    async def judge(self, events: Numbered) -> Numbered:
        """Return the events."""
        return events


class OutputFiltering:
    """Judges with the filters that `make` makes, one for each choice; each look may take so many `seconds`."""

    may_end_choices = True

    def __init__(self, make: FilterFactory, *, seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._left_behind: list[threading.Thread] = []

    @contextmanager
    def open(self, num_choices: int) -> Iterator[Judge]:
        """Yield a judge with a thread of its own, which ends with the block, or when its filter comes back."""
        self._left_behind = [thread for thread in self._left_behind if thread.is_alive()]
        if len(self._left_behind) >= MAX_STUCK:
            raise ApiError(503, "The output filter does not come back.", code="filter_stuck", retry_after=30)
        judge = _ThreadJudge(self._make, num_choices, self._seconds)
        try:
            yield judge
        finally:
            judge.close()
            self._left_behind.append(judge.thread)


class _ThreadJudge:
    def __init__(self, make: FilterFactory, num_choices: int, seconds: float) -> None:
        self._choices = [FilteredChoice(make) for _ in range(num_choices)]
        self._seconds = seconds
        self._late: set[int] = set()  # choices that ended because their filter did not come back
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A filter that hangs must not keep the process from ending.
        self.thread = threading.Thread(target=self._run, name="paradraft-filter", daemon=True)
        self.thread.start()

    async def judge(self, events: Numbered) -> Numbered:
        events = [(number, event) for number, event in events if number not in self._late]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Numbered] = loop.create_future()

        def look() -> None:
            found = self._looked(events)
            with suppress(RuntimeError):  # the loop has closed, and nobody waits any more
                loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(found))

        num_looks = sum(max(1, len(event.token_ids)) for _, event in events)
        self._work.put(look)
        try:
            return await asyncio.wait_for(done, self._seconds * num_looks)
        except TimeoutError:
            why = f"The output filter took longer than {self._seconds:g} s."
            late = dict(events)
            self._late |= late.keys()
            return [(number, _ended(event, why)) for number, event in late.items()]

    def close(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _looked(self, events: Numbered) -> Numbered:
        found: Numbered = []
        for number, event in events:
            out = self._choices[number].look(event)
            if out is not None:
                found.append((number, out))
        return found


class FilteredChoice:
    """One choice under a filter: what it holds back, and whether it has ended."""

    def __init__(self, make: FilterFactory) -> None:
        self._make = make
        self._filter: Filter | None = None
        self._held: list[TokenEvent] = []  # a token each
        self._has_ended = False

    def look(self, event: TokenEvent) -> TokenEvent | None:
        """Return what goes out of the choice's next event, None: nothing now. A filter that fails ends the choice."""
        try:
            out = self._judged(event)
        except Exception as error:  # noqa: BLE001 - whatever an operator's filter does, it ends its own request only
            self._has_ended = True
            return _ended(event, f"The output filter failed: {type(error).__name__}: {error}")
        return joined(out) if out else None

    def _judged(self, event: TokenEvent) -> list[TokenEvent]:
        if self._filter is None:
            self._filter = self._make()
        out: list[TokenEvent] = []
        for single in single_tokens(event):
            if self._has_ended:
                break
            self._held.append(single)
            is_end = single.finish_reason is not None
            if single.text or is_end:
                verdict = self._filter("".join(each.text for each in self._held), is_end)
                out += self._settled(verdict, event.stats, is_end=is_end)
        return out

    def _settled(self, verdict: FilterVerdict, counts: GenerationStats | None, *, is_end: bool) -> list[TokenEvent]:
        """Return what a verdict lets out of what is held; counts: the choice's, with the step looked at."""
        if not isinstance(verdict, FilterVerdict):
            raise TypeError(f"it returned {type(verdict).__name__}, which is no FilterVerdict")
        self._has_ended = is_end or verdict.action is Action.STOP
        if verdict.action is Action.HOLD and not is_end:
            return []
        held, self._held = self._held, []
        if verdict.action is Action.PASS:
            return held
        hidden = _hidden(held, verdict.text)
        if verdict.action is Action.STOP:
            return [replace(hidden, finish_reason=FinishReason.CONTENT_FILTER, stop_reason=None, stats=counts)]
        return [hidden]


def _hidden(held: list[TokenEvent], text: str) -> TokenEvent:
    """Return an event with another text in place of these tokens, which are only counted."""
    whole = joined(held)
    return replace(
        whole,
        token_ids=(),
        origins=(),
        logprobs=(),
        pieces=(text,) if text else (),
        num_hidden=whole.num_hidden + len(whole.token_ids),
    )


def _ended(event: TokenEvent, error: str) -> TokenEvent:
    return replace(
        event,
        token_ids=(),
        origins=(),
        pieces=(),
        logprobs=(),
        prompt_logprobs=None,
        finish_reason=FinishReason.ERROR,
        stop_reason=None,
        error=error,
    )
