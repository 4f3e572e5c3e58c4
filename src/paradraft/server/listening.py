"""Listens, and stops the way operators expect: no new requests, running ones finish, then the door closes."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI

from paradraft.core.errors import ConfigError
from paradraft.core.serving import Service
from paradraft.server.connections import connections
from paradraft.server.exchange import Context
from paradraft.server.options import ServerOptions

log = logging.getLogger("paradraft.server")

_IDLE_SECONDS = 30  # a connection is kept so long between two requests
_READ_SECONDS = 5  # for readers to fetch the end of answers that are complete
_CLOSE_SECONDS = 5.0  # for the step under way
_WATCH_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 8000


class _QuietServer(uvicorn.Server):
    """A server whose signals are handled by its owner."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def take(address: Address) -> socket.socket:
    """Return a socket that has the address and does not listen yet; raise ConfigError where it cannot be had."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        door = socket.socket(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(place)
    except OSError as error:
        raise ConfigError(
            f"--host {address.host} --port {address.port}: the server cannot listen there ({error.strerror}).",
            remedy="Choose another port with --port, 0 for a free one, or an address of this machine with --host.",
        ) from error
    return door


async def listen(app: FastAPI, context: Context, door: socket.socket, *, on_ready: Callable[[str], None]) -> bool:
    """Serve until a signal; the first one lets running requests finish, a second one does not wait for them.

    on_ready is told the URL once requests are taken. Returns whether it ended as asked, and not because the engine did.
    """
    server = _QuietServer(server_config(app, context.options))
    asked, hurried = asyncio.Event(), asyncio.Event()
    _handle_signals(asked, hurried)
    serving = asyncio.ensure_future(server.serve(sockets=[door]))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if server.started:
        on_ready(_url(door))
        await _first(serving, asked.wait(), _death(context.service))
        await _drain(context, hurried)
    server.should_exit = True
    await _first(serving, hurried.wait())
    server.force_exit = hurried.is_set()
    is_well = server.started and context.service.health().failure is None
    await serving
    return is_well


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
    log.info("Stopping: %d answers may finish within %g s.", context.switchboard.num_open, seconds)
    idling = asyncio.ensure_future(context.switchboard.until_idle(seconds))
    await _first(idling, hurried.wait())
    idling.cancel()
    if context.switchboard.num_open:
        log.warning("%d answers did not finish in time and are cut off.", context.switchboard.num_open)
    await asyncio.to_thread(context.service.close, _CLOSE_SECONDS)
    await context.switchboard.until_idle(1.0)  # last events travel to their streams


def _url(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
