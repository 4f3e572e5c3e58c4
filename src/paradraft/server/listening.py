"""Listens, and stops the way operators expect: no new requests, running ones finish, then the door closes."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI

from paradraft.core.serving import Service
from paradraft.server.connections import connections
from paradraft.server.doors import Door
from paradraft.server.exchange import Context
from paradraft.server.options import ServerOptions

log = logging.getLogger("paradraft.server")

_IDLE_SECONDS = 30  # a connection is kept so long between two requests
_READ_SECONDS = 5  # for readers to fetch the end of answers that are complete
_CLOSE_SECONDS = 5.0  # for the step under way
_WATCH_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrance:
    """An application, and the door it is reached by."""

    app: FastAPI
    door: Door


async def listen(
    context: Context, public: Entrance, operators: Entrance | None = None, *, on_ready: Callable[[], None]
) -> bool:
    """Serve until a signal; the first one lets running requests finish, a second one does not wait for them.

    The public application starts the engine. So the operators' one begins after it, and is there until it has ended.
    on_ready is called once requests are taken. Returns whether it ended as asked, and not because the engine did.
    Raises ConfigError, before anything is started, where an address cannot be listened on after all.
    """
    entrances = [public] if operators is None else [public, operators]
    for entrance in entrances:
        entrance.door.open()
    asked, hurried = asyncio.Event(), asyncio.Event()
    _handle_signals(asked, hurried)
    listeners = [await _begun(entrance, context.options) for entrance in entrances]
    is_up = all(listener.is_up for listener in listeners)
    if is_up:
        on_ready()
        await _first(listeners[0].serving, asked.wait(), _death(context.service))
        await _drain(context, hurried)
    for listener in listeners:
        await listener.end(hurried)
    return is_up and context.service.health().failure is None


class _QuietServer(uvicorn.Server):
    """A server whose signals are handled by its owner."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class _Listener:
    """One entrance that is served."""

    def __init__(self, server: _QuietServer, serving: asyncio.Task[None]) -> None:
        self._server = server
        self.serving = serving

    @property
    def is_up(self) -> bool:
        """Return whether it came to take connections."""
        return self._server.started

    async def end(self, hurried: asyncio.Event) -> None:
        """Take no more connections, and wait for those that are open unless somebody hurries."""
        self._server.should_exit = True
        await _first(self.serving, hurried.wait())
        self._server.force_exit = hurried.is_set()
        await self.serving


async def _begun(entrance: Entrance, options: ServerOptions) -> _Listener:
    server = _QuietServer(server_config(entrance.app, options))
    serving = asyncio.ensure_future(server.serve(sockets=[entrance.door.socket]))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    return _Listener(server, serving)


def server_config(app: FastAPI, options: ServerOptions) -> uvicorn.Config:
    """Return how the HTTP server runs."""
    return uvicorn.Config(
        app,
        http=connections(options),  # type: ignore[arg-type]  # it is called only, and need not be a class
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_READ_SECONDS,
        ws="none",
        loop="none",
        lifespan="on",
    )


def _handle_signals(asked: asyncio.Event, hurried: asyncio.Event) -> None:
    def on_signal() -> None:
        (hurried if asked.is_set() else asked).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


async def _first(main: asyncio.Task[Any], *others: Coroutine[object, object, object]) -> None:
    """Wait until the main one or one of the others is done, and give up the others then."""
    begun: list[asyncio.Task[object]] = [asyncio.ensure_future(other) for other in others]
    await asyncio.wait([main, *begun], return_when=asyncio.FIRST_COMPLETED)
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


async def _death(service: Service) -> None:
    """Return when the engine has ended on its own: a server without one only keeps its port from a better one."""
    while service.health().is_alive:
        await asyncio.sleep(_WATCH_SECONDS)
    log.error("The engine has stopped (%s), and so does the server.", service.health().failure)


async def _drain(context: Context, hurried: asyncio.Event) -> None:
    """Take no more requests, wait until the running ones end, time is over or somebody hurries; then end the engine."""
    context.admission.is_draining = True
    seconds = context.options.drain_seconds
    log.info("Stopping: %s", _prospect(context.switchboard.num_open, seconds))
    idling = asyncio.ensure_future(context.switchboard.until_idle(seconds))
    await _first(idling, hurried.wait())
    idling.cancel()
    if context.switchboard.num_open:
        log.warning("%s did not finish: cut off with a finish reason.", _answers(context.switchboard.num_open))
    await asyncio.to_thread(context.service.close, _CLOSE_SECONDS)
    await context.switchboard.until_idle(1.0)  # last events travel to their streams


def _prospect(num_open: int, seconds: float) -> str:
    if not num_open:
        return "no answer is being made."
    return f"{_answers(num_open)} may finish within {seconds:g} s. A second signal (Ctrl-C) does not wait."


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} answers"
