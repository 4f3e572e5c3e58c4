"""/v1/models and /version: what is served."""

from __future__ import annotations

from fastapi import APIRouter

from paradraft.core.version import __version__
from paradraft.server.answers.usage import Json
from paradraft.server.exchange import Context
from paradraft.server.request_parts import check_model
from paradraft.server.schema.errors import errors


def models(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()
    served = [_card(name, context) for name in (context.service.model.name, *context.options.aliases)]

    @router.get("/v1/models", summary="List what is served", responses=errors())
    async def list_models() -> Json:
        return {"object": "list", "data": served}

    @router.get("/v1/models/{name:path}", summary="Describe one model", responses=errors(404))
    async def describe_model(name: str) -> Json:
        check_model(name, context)
        return next(card for card in served if card["id"] == name)

    @router.get("/version", summary="Tell the version of the server", responses=errors())
    async def version() -> Json:
        return {"version": __version__}

    return router


def _card(name: str, context: Context) -> Json:
    model, options = context.service.model, context.options
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "paradraft",
        "root": model.name,
        "parent": None,
        "max_model_len": model.longest,
        "paradraft": {
            "drafter": model.drafter,
            "gamma": model.gamma,
            "rule": model.rule,
            "is_exact": model.is_exact,
            "dtype": model.dtype,
            "runner": model.runner,
            "vocab_size": model.vocab_size,
            "embedding_size": model.embedding_size,
            "limits": {
                "rows": model.max_rows,
                "waiting": options.max_waiting,
                "prompts": options.max_prompts,
                "n": options.max_choices,
                "stop": options.max_stops,
                "body_bytes": options.max_body_bytes,
                "deadline_seconds": options.deadline_seconds,
            },
        },
    }
