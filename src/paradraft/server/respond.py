"""Runs an exchange: as one answer, or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import orjson
from fastapi import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paradraft.core.events import TokenEvent
from paradraft.core.records import FinishReason
from paradraft.server.answers.frames import DONE, error_frame, frame, padded
from paradraft.server.answers.gathered import Gathered
from paradraft.server.answers.usage import Json
from paradraft.server.errors import ApiError, error_body, error_response
from paradraft.server.exchange import Context, Exchange
from paradraft.server.filtering import Judge
from paradraft.server.notes import Note, note_of
from paradraft.server.presence import ClientGone, gone, while_connected
from paradraft.server.smoothing import Numbered, Pacer, Straight, pacer_of
from paradraft.server.switchboard import Burst, Inbox

log = logging.getLogger("paradraft.server")

_FAILED = "The model failed on this request; the reason is in the server's log."
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies must not hold a stream back


async def respond(exchange: Exchange, context: Context, http: HttpRequest) -> Response:
    """Return the answer to an exchange; a client that leaves ends its requests."""
    if exchange.streams:
        return EventStream(exchange, context)
    note = note_of(http.scope)
    try:
        body = await while_connected(_answer(exchange, context, note), http.receive)
    except ClientGone:
        return gone(note)
    return Response(orjson.dumps(body), media_type="application/json")


async def _answer(exchange: Exchange, context: Context, note: Note) -> Json:
    choices = [Gathered() for _ in range(exchange.num_choices)]
    try:
        with _admitted(exchange, context, note) as (inbox, judge):
            async for numbered in _numbered(exchange, context, inbox, judge, Straight()):
                note.note_token()
                for number, event in numbered:
                    choices[number].add(event)
    finally:
        note.end(choices)
    for choice in choices:
        _check_ended_well(choice)
    answer = exchange.head(exchange.format.name)
    answer["choices"] = [
        exchange.told(exchange.format.choice(number, choice), choice) for number, choice in enumerate(choices)
    ]
    answer["usage"] = exchange.usage(choices)
    if exchange.tells_speculation:
        answer["metrics"] = exchange.metrics(choices)
    return answer


@contextmanager
def _admitted(exchange: Exchange, context: Context, note: Note) -> Iterator[tuple[Inbox, Judge]]:
    """Admit the requests of an exchange and yield their inbox and judge.

    Nothing comes between the check and the count of what runs, so no bound is overrun.
    """
    context.admission.check(exchange.num_choices, exchange.requests[0].tenant)
    with context.filtering.open(exchange.num_choices) as judge:
        note.begin(exchange.token, sum(len(request.prompt) for request in exchange.requests))
        with context.switchboard.open(exchange.requests) as inbox:
            yield inbox, judge


class EventStream(Response):
    """A streamed answer. It is admitted when it begins, so that a refusal still has a status of its own."""

    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange, context: Context) -> None:
        super().__init__(headers=_HEADERS, media_type=self.media_type)
        del self.headers["content-length"]
        self._exchange = exchange
        self._context = context
        self._choices = [Gathered() for _ in range(exchange.num_choices)]
        self._opened: set[int] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client leaves."""
        note = note_of(scope)
        try:
            await while_connected(self._pump(send, note), receive)
        except ApiError as error:  # only from before the first byte: later ones are told in the stream
            await error_response(error)(scope, receive, send)
        except (ClientGone, OSError):
            note.was_left = True  # nobody is left to be told

    async def _pump(self, send: Send, note: Note) -> None:
        options = self._context.options
        try:
            with _admitted(self._exchange, self._context, note) as (inbox, judge):
                async with asyncio.timeout(options.deadline_seconds + options.send_seconds):
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                    async for frames in self._frames(inbox, judge, note):
                        await send({"type": "http.response.body", "body": frames, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError as error:
            raise ClientGone from error  # it is there, but reads too slowly to be served
        finally:
            note.end(self._choices)

    async def _frames(self, inbox: Inbox, judge: Judge, note: Note) -> AsyncIterator[bytes]:
        exchange, choices = self._exchange, self._choices
        pacer = pacer_of(self._context.options, asyncio.get_running_loop().time())
        try:
            async for numbered in _numbered(exchange, self._context, inbox, judge, pacer):
                if numbered:  # a beat without tokens is sent too
                    note.note_token()
                yield padded(b"".join(self._told(number, event) for number, event in numbered), pacer.padded_to)
        except ApiError as error:
            cut = [self._told(number, _cut_off(exchange, number)) for number in self._open_choices()]
            failure = error_frame(error_body(error.status, error.message, code=error.code))
            yield padded(b"".join(cut) + failure, pacer.padded_to)
        if exchange.tells_usage:
            yield padded(self._chunk([], choices, is_last=True), pacer.padded_to)
        yield padded(DONE, pacer.padded_to)

    def _open_choices(self) -> list[int]:
        return [number for number, choice in enumerate(self._choices) if choice.finish_reason is None]

    def _told(self, number: int, event: TokenEvent) -> bytes:
        """Return the frames of an event."""
        exchange, choices = self._exchange, self._choices
        choices[number].add(event)
        opening = exchange.format.opening(number) if number not in self._opened else None
        self._opened.add(number)
        deltas = [*([opening] if opening else []), exchange.told(exchange.format.delta(number, event), event)]
        frames = [self._chunk([delta], choices) for delta in deltas]
        if event.error is not None:
            frames.append(error_frame(_failure_body(event.error)))
        return b"".join(frames)

    def _chunk(self, deltas: list[Json], choices: list[Gathered], *, is_last: bool = False) -> bytes:
        exchange = self._exchange
        chunk = exchange.head(exchange.format.chunk_name)
        chunk["choices"] = deltas
        if exchange.tells_usage:
            chunk["usage"] = exchange.usage(choices) if is_last or exchange.tells_usage_always else None
        if exchange.tells_speculation and (is_last or all(choice.finish_reason for choice in choices)):
            chunk["metrics"] = exchange.metrics(choices)
        return frame(chunk)


async def _numbered(
    exchange: Exchange, context: Context, inbox: Inbox, judge: Judge, pacer: Pacer
) -> AsyncIterator[Numbered]:
    """Yield what is to be told next, by the number of its choice; raise ApiError once the deadline has passed."""
    loop, seconds = asyncio.get_running_loop(), context.options.deadline_seconds
    deadline = loop.time() + seconds
    # One timer for a whole answer: a timeout around each burst would take longer than to write its frame.
    alarm = loop.call_at(deadline, inbox.ring)
    num_open = exchange.num_choices
    try:
        while num_open:
            burst = await _burst(inbox, pacer)
            if loop.time() >= deadline:
                raise ApiError(
                    503, f"The answer was not ready after {seconds:g} s.", code="deadline_exceeded", retry_after=5
                )
            if burst:
                numbered = [(exchange.number(at, event.index), event) for at, event in burst]
                pacer.take(await judge.judge(numbered), loop.time())
            due = pacer.due(loop.time())
            if due is not None:
                num_open -= sum(event.finish_reason is not None for _, event in due)
                yield due
    finally:
        alarm.cancel()


async def _burst(inbox: Inbox, pacer: Pacer) -> Burst:
    """Return what comes next, nothing if the pacer has something to send before."""
    wakes_at = pacer.wakes_at()
    if wakes_at is None:
        return await inbox.burst()
    bell = asyncio.get_running_loop().call_at(wakes_at, inbox.ring)
    try:
        return await inbox.burst()
    finally:
        bell.cancel()


def _cut_off(exchange: Exchange, number: int) -> TokenEvent:
    """Return the last event of a choice for which no time is left."""
    at, choice = divmod(number, exchange.requests[0].params.n)
    return TokenEvent(
        request_id=exchange.requests[at].request_id,
        index=choice,
        token_ids=(),
        origins=(),
        pieces=(),
        finish_reason=FinishReason.ABORT,
    )


def _check_ended_well(choice: Gathered) -> None:
    if choice.finish_reason is FinishReason.ABORT:
        raise ApiError(503, "The server is stopping; the answer was cut off.", code="server_stopping", retry_after=5)
    if choice.finish_reason is FinishReason.ERROR:
        log.error("A request failed: %s", choice.error)
        raise ApiError(500, _FAILED, code="generation_failed")


def _failure_body(reason: str) -> bytes:
    log.error("A streamed request failed: %s", reason)
    return error_body(500, _FAILED, code="generation_failed")
