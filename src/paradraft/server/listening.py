"""Listens, and stops the way operators expect: no new requests, running ones finish, then the door closes."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from paradraft.server.exchange import Context

log = logging.getLogger("paradraft.server")

_HEADER_SECONDS = 30  # an idle connection is kept so long


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


async def listen(app: FastAPI, context: Context, address: Address, *, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal; the first one lets running requests finish, a second one does not wait for them.

    on_ready is told the URL once requests are taken.
    """
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_HEADER_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
        ws="none",
        loop="none",
    )
    server = _QuietServer(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stopping.is_set():
            server.force_exit = True
            server.should_exit = True
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    serving = asyncio.ensure_future(server.serve())
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if server.started:
        on_ready(_url(address, server))
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not serving.done():
        await _drain(context)
        server.should_exit = True
    await serving


async def _drain(context: Context) -> None:
    """Take no more requests, and wait until those that run have ended or their time is over."""
    context.admission.is_draining = True
    seconds = context.options.drain_seconds
    log.info("Stopping: %d answers may finish within %g s.", context.switchboard.num_open, seconds)
    if not await context.switchboard.until_idle(seconds):
        log.warning("%d answers did not finish in time and are cut off.", context.switchboard.num_open)
    await asyncio.to_thread(context.service.close, 5.0)
    await asyncio.sleep(0.05)  # last events travel to their streams


def _url(address: Address, server: uvicorn.Server) -> str:
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{port}"
