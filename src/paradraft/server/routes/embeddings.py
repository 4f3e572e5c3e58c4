"""/v1/embeddings: texts or token ids as vectors."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from concurrent.futures import Future

import orjson
from fastapi import APIRouter
from fastapi import Request as HttpRequest
from starlette.responses import Response

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ParadraftError, RequestRefused
from paradraft.server.answers.usage import Json
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context
from paradraft.server.notes import Note, note_of
from paradraft.server.presence import ClientGone, gone, while_connected
from paradraft.server.request_parts import as_prompts, check_model, check_text, encode, tenant_of
from paradraft.server.schema.embeddings import EmbeddingBody
from paradraft.server.schema.errors import POST_ERRORS


def embeddings(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()

    @router.post("/v1/embeddings", summary="Turn texts into vectors of length 1", responses=POST_ERRORS)
    async def embed(body: EmbeddingBody, http: HttpRequest) -> Response:
        check_model(body.model, context)
        prompts = as_prompts(body.input, context, param="input")
        tokenizer, note = context.service.tokenizer, note_of(http.scope)
        for prompt in prompts:
            if isinstance(prompt, str):
                check_text(prompt, context, "input")
        texts = [await encode(tokenizer, prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        try:
            vectors = await while_connected(_vectors_of(texts, context, note, tenant_of(http)), http.receive)
        except ClientGone:
            return gone(note)
        written = [_written(vector, body.encoding_format) for vector in vectors]
        count = sum(map(len, texts))
        answer: Json = {
            "object": "list",
            "data": [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(written)],
            "model": body.model or context.service.model.name,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
        return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")

    return router


async def _vectors_of(texts: Sequence[Sequence[int]], context: Context, note: Note, tenant: str) -> list[FloatArray]:
    """Admit the texts and wait for their vectors within the deadline."""
    seconds = context.options.deadline_seconds
    context.admission.check_texts(len(texts), tenant)
    answer = _asked(texts, context)
    note.begin(note.request_id, sum(map(len, texts)))
    with context.switchboard.embedding(len(texts), tenant):
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
        except TimeoutError as error:
            message = f"The embeddings were not ready after {seconds:g} s."
            raise ApiError(503, message, code="deadline_exceeded", retry_after=5) from error
        except ParadraftError as error:
            raise ApiError(503, "The engine has stopped.", code="engine_stopped", retry_after=30) from error


def _asked(texts: Sequence[Sequence[int]], context: Context) -> Future[list[FloatArray]]:
    try:
        return context.service.embed(texts)
    except RequestRefused as error:
        raise ApiError(400, f"input: {error}", code="invalid_value", param="input") from error


def _written(vector: FloatArray, encoding: str) -> object:
    """Return the numbers themselves, or the base64 of their fp32 bytes, lowest first."""
    return vector if encoding == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
