"""Whether the client is still there while its answer is made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.responses import Response
from starlette.types import Receive

from paradraft.server.notes import Note

Result = TypeVar("Result")

_CLIENT_GONE = 499  # as proxies log it; nobody receives it


class ClientGone(Exception):
    """The client closed the connection before its answer was whole."""


def gone(note: Note) -> Response:
    """Return the answer to nobody, and note that nobody waited for it."""
    note.was_left = True
    return Response(status_code=_CLIENT_GONE)


async def while_connected(work: Coroutine[object, object, Result], receive: Receive) -> Result:
    """Return what the work returns; raise ClientGone, and cancel it, where the client leaves before."""
    running = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnection(receive))
    try:
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientGone
        return running.result()
    finally:
        for task in (running, leaving):
            task.cancel()
        await asyncio.gather(running, leaving, return_exceptions=True)


async def _disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
