"""Whether the process lives, and whether it should be sent requests."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from paradraft.server.exchange import Context

_UNWELL: dict[int | str, dict[str, Any]] = {503: {"description": "It is not, with the reason"}}


def health(context: Context) -> APIRouter:
    """Return the router; its routes need no key and tell nothing about what is served."""
    router = APIRouter()

    @router.get("/health/live", summary="Tell whether the process should go on; 503: restart it", responses=_UNWELL)
    async def live() -> JSONResponse:
        is_alive = context.service.health().is_alive
        return JSONResponse({"status": "live" if is_alive else "dead"}, status_code=200 if is_alive else 503)

    @router.get(
        "/health/ready", summary="Tell whether requests are answered; follows the engine's progress", responses=_UNWELL
    )
    @router.get("/health", include_in_schema=False)
    async def ready() -> JSONResponse:
        reason = context.admission.why_not_ready()
        body = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        return JSONResponse(body, status_code=200 if reason is None else 503)

    return router
