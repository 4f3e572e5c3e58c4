"""One line in the log for each request, and its id in each answer."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paradraft.core.serving import Observer
from paradraft.server.guards.keys import OPEN_PATHS
from paradraft.server.notes import Note, note_of

log = logging.getLogger("paradraft.requests")

_LONGEST_PATH = 200
_ASKED_OFTEN = ("/metrics", "/page/live")  # each few seconds, by Prometheus and by pages that are looked at
_REFUSALS = range(400, 600)


class Journal:
    """Middleware around all others. Probes are noted at the level debug only, and so is who looks on and may.

    observer: is told what was refused, if there is one.
    """

    def __init__(self, app: ASGIApp, observer: Observer | None) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and write about it when it is over."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note = note_of(scope)
        status = 0  # as long as nothing was answered

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"]).setdefault("X-Request-Id", note.request_id)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            status = status or 500  # as it will be answered further out
            raise
        finally:
            self._write(scope, status, note)

    def _write(self, scope: Scope, status: int, note: Note) -> None:
        if self._observer is not None and status in _REFUSALS and note.prompt_tokens is None:
            self._observer.refused(status, note.code or "")
        level = logging.DEBUG if _is_routine(scope["path"], status) else logging.INFO
        if log.isEnabledFor(level):
            log.log(level, "request", extra={"fields": _fields(scope, status, note)})


def _is_routine(path: str, status: int) -> bool:
    return path in OPEN_PATHS or (path in _ASKED_OFTEN and status not in _REFUSALS)


def _fields(scope: Scope, status: int, note: Note) -> dict[str, object]:
    fields: dict[str, object] = {
        "id": note.request_id,
        "method": scope["method"],
        "path": scope["path"][:_LONGEST_PATH],
        "tenant": scope.get("paradraft.tenant"),
        "status": status,
        "code": note.code,
        "seconds": round(time.monotonic() - note.begun, 4),
        "first_seconds": None if note.first_seconds is None else round(note.first_seconds, 4),
        "prompt_tokens": note.prompt_tokens,
        "completion_tokens": note.completion_tokens,
        "finish": ",".join(note.finish_reasons) or None,
        "tau": None if note.tau is None else round(note.tau, 3),
        "client_left": note.was_left or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
