"""Server-sent events: one `data:` line for each chunk, and a last one that says it was all."""

from __future__ import annotations

import orjson

from paradraft.server.answers.usage import Json

DONE = b"data: [DONE]\n\n"
_COMMENT = b": \n\n"


def frame(body: Json) -> bytes:
    """Return one event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


def error_frame(body: bytes) -> bytes:
    """Return an event with an error that came after the stream began."""
    return b"data: " + body + b"\n\n"


def padded(frames: bytes, size: int) -> bytes:
    """Return the events behind a comment, which clients leave out, that fills them up to a multiple of `size` bytes."""
    lack = -len(frames) % size
    if not lack and frames:
        return frames
    # A comment takes a colon, a space and an empty line at least.
    lack += size if lack < len(_COMMENT) else 0
    return _COMMENT.replace(b" ", b" " * (lack - len(_COMMENT) + 1)) + frames
