"""How errors look, for the description of the interface."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class ErrorDetails(BaseModel):
    """What went wrong; param names the field, where it is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: ErrorDetails


_MEANINGS = {
    400: "A value cannot be served, or the body is no JSON",
    401: "The API key is missing or wrong",
    404: "Nothing of that name is served",
    408: "The body took too long to arrive",
    413: "The body is too long",
    415: "The body is not declared as JSON",
    422: "A field is unknown, or its value of the wrong kind",
    429: "Too much runs or waits already; Retry-After says when to come back",
    500: "The server made a mistake; its log has it under the X-Request-Id",
    503: "Not now: the server stops, stalls or was too slow; Retry-After says when to come back",
}
_WITHOUT_BODY = (400, 401, 500)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route: those that any has, and the given ones."""
    return {
        status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in sorted({*_WITHOUT_BODY, *statuses})
    }


POST_ERRORS = errors(404, 408, 413, 415, 422, 429, 503)
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its pieces as server-sent events",
        "content": {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}},
    },
    **POST_ERRORS,
}
