"""The page at `/`: a playground and a live view of the engine. Its files are read once and found by name only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context
from paradraft.server.live import LiveFeed

FIRST = "index.html"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # what a model says can never become markup
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",  # kept, and asked for again each time: a new version shows at once
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    body: bytes
    media_type: str
    etag: str


def page(context: Context) -> APIRouter:
    """Return the router; without a page it has no routes, so the paths are unknown ones."""
    router = APIRouter(include_in_schema=False)
    if not context.options.has_page:
        return router
    known, feed = _read_files(), LiveFeed(context.service)

    @router.get("/")
    async def first(http: Request) -> Response:
        return _answer(known[FIRST], http)

    @router.get("/page/live")
    async def live(after: Annotated[int, Query(ge=0, le=2**53)] = 0) -> Response:
        reason = context.admission.why_not_ready()
        samples = [asdict(sample) for sample in await feed.after(after)]
        body = orjson.dumps({"not_ready": reason, "samples": samples}, option=orjson.OPT_NON_STR_KEYS)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    @router.get("/page/{name}")
    async def file(name: str, http: Request) -> Response:
        if name not in known:
            raise ApiError(404, "Not Found", code="not_found")
        return _answer(known[name], http)

    return router


def _read_files() -> Mapping[str, _File]:
    """Return the page's files by name: what is not among them cannot be asked for, whatever a path looks like."""
    found = {}
    for entry in files("paradraft.server").joinpath("page").iterdir():
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            body = entry.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[entry.name] = _File(body=body, media_type=media_type, etag=etag)
    return found


def _answer(file: _File, http: Request) -> Response:
    headers = {**_HEADERS, "ETag": file.etag}
    if file.etag in http.headers.get("if-none-match", ""):  # proxies may send several, or weaken it
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)
