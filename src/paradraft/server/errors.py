"""Errors as OpenAI writes them, on every route: one object with message, type, param and code."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paradraft.core.errors import ParadraftError
from paradraft.server.notes import note_of

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
}

# A line for each: browsers take several on one line for a single one that they do not know, and ask for no password.
_CHALLENGES = ("Bearer", 'Basic realm="paradraft", charset="UTF-8"')
_FIELDS = {"draft_from": "speculative.drafter", "gamma": "speculative.gamma"}  # what clients call them


class ApiError(Exception):
    """What ends a request with an HTTP status. The message goes to the client as it stands: nothing internal in it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after


def refused(error: ParadraftError) -> ApiError:
    """Return what a refusal of the engine is to a client; the field it names, as in `top_p=2`, becomes param."""
    name, equals, _ = error.problem.partition("=")
    param = _FIELDS.get(name, name) if equals and name.isidentifier() else None
    return ApiError(400, str(error), code="invalid_value", param=param)


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """Return the JSON of an error."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


class ErrorResponse(Response):
    """An error on its way to the client; its code is noted for the log."""

    media_type = "application/json"

    def __init__(self, error: ApiError, headers: dict[str, str]) -> None:
        body = error_body(error.status, error.message, code=error.code, param=error.param)
        super().__init__(body, status_code=error.status, headers=headers)
        self._code = error.code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        note_of(scope).code = self._code
        await super().__call__(scope, receive, send)


def error_response(error: ApiError) -> Response:
    """Return the answer that tells of an error."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    response = ErrorResponse(error, headers)
    if error.status == HTTPStatus.UNAUTHORIZED:
        for challenge in _CHALLENGES:
            response.headers.append("WWW-Authenticate", challenge)
    return response


def add_error_handlers(app: FastAPI) -> None:
    """Give every error of the application OpenAI's shape."""

    @app.exception_handler(ApiError)
    async def tell(_: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(ParadraftError)
    async def tell_refusal(request: Request, error: ParadraftError) -> Response:
        return await tell(request, refused(error))

    @app.exception_handler(RequestValidationError)
    async def tell_invalid(request: Request, error: RequestValidationError) -> Response:
        return await tell(request, _invalid(error))

    @app.exception_handler(HTTPException)
    async def tell_http(request: Request, error: HTTPException) -> Response:
        return await tell(request, ApiError(error.status_code, str(error.detail), code=_code_of(error.status_code)))

    @app.exception_handler(Exception)
    async def tell_nothing(_: Request, error: Exception) -> Response:
        del error  # it is logged by the server; a client learns nothing about the inside
        answer = error_response(ApiError(500, "The server made a mistake; it is in its log.", code="internal_error"))
        answer.headers["Connection"] = "close"  # as it will be: nothing more should be sent on it
        return answer


def _invalid(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    param = _path_of(first["loc"])
    if first["type"] == "extra_forbidden":
        message = f"Unknown field {param!r}. It is not ignored, because it would change nothing: leave it out."
        return ApiError(422, message, code="unknown_field", param=param)
    if first["type"] == "json_invalid":
        return ApiError(400, "The body is no JSON.", code="invalid_json")
    where = f"{param}: " if param else ""
    return ApiError(422, f"{where}{first['msg']}.", code="invalid_value", param=param)


def _path_of(location: Sequence[int | str]) -> str | None:
    """Return `messages[0].content` for the place of a mistake; the names of union members are left out."""
    path = ""
    for part in location[1:]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part.islower() and part not in _UNION_MEMBERS:
            path += f".{part}" if path else part
    return path[:_LONGEST_PATH] or None


_LONGEST_PATH = 100  # names come from clients too
_UNION_MEMBERS = frozenset({"str", "int", "float", "bool", "list", "dict"})


def _code_of(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "_")
