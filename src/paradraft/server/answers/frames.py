"""Server-sent events: one `data:` line for each chunk, and a last one that says it was all."""

from __future__ import annotations

import orjson

from paradraft.server.answers.usage import Json

DONE = b"data: [DONE]\n\n"


def frame(body: Json) -> bytes:
    """Return one event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


def error_frame(body: bytes) -> bytes:
    """Return an event with an error that came after the stream began."""
    return b"data: " + body + b"\n\n"
