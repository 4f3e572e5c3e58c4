"""/metrics: all figures in Prometheus' text format."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter
from starlette.responses import Response

from paradraft.core.serving import Figures
from paradraft.server.exchange import Context


def metrics(context: Context, figures: Figures) -> APIRouter:
    """Return the router; a page is written beside the event loop, so that no stream waits for it."""
    router = APIRouter()

    def render() -> bytes:
        return figures.render(context.service.snapshot(), context.service.health())

    @router.get("/metrics", summary="Tell all figures in Prometheus' text format")
    async def page() -> Response:
        return Response(await to_thread.run_sync(render), headers={"Content-Type": figures.content_type})

    return router
