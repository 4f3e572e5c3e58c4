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
from paradraft.server.request_parts import as_prompts, check_model, encode
from paradraft.server.respond import CLIENT_GONE, ClientGone, while_connected
from paradraft.server.schema.embeddings import EmbeddingBody


def embeddings(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()
    desk = _Desk(context)

    @router.post("/v1/embeddings", summary="Turn texts into vectors of length 1")
    async def embed(body: EmbeddingBody, http: HttpRequest) -> Response:
        check_model(body.model, context)
        prompts = as_prompts(body.input, context, param="input")
        tokenizer = context.service.tokenizer
        texts = [await encode(tokenizer, prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        try:
            vectors = await while_connected(desk.vectors_of(texts), http.receive)
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
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


class _Desk:
    """Takes texts within a bound, and waits for their vectors within the deadline."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._num_open = 0

    async def vectors_of(self, texts: Sequence[Sequence[int]]) -> list[FloatArray]:
        context, seconds = self._context, self._context.options.deadline_seconds
        context.admission.check(0)
        self._check_room(len(texts))
        answer = self._asked(texts)
        self._num_open += len(texts)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
        except TimeoutError as error:
            message = f"The embeddings were not ready after {seconds:g} s."
            raise ApiError(503, message, code="deadline_exceeded", retry_after=5) from error
        except ParadraftError as error:
            raise ApiError(503, "The engine has stopped.", code="engine_stopped", retry_after=30) from error
        finally:
            self._num_open -= len(texts)

    def _asked(self, texts: Sequence[Sequence[int]]) -> Future[list[FloatArray]]:
        try:
            return self._context.service.embed(texts)
        except RequestRefused as error:
            raise ApiError(400, f"input: {error}", code="invalid_value", param="input") from error

    def _check_room(self, count: int) -> None:
        options = self._context.options
        room = options.max_prompts + options.max_waiting
        if self._num_open + count > room:
            raise ApiError(
                429,
                f"{self._num_open} texts wait for their embeddings, and {room} is the limit. Try again soon.",
                code="queue_full",
                retry_after=1,
            )


def _written(vector: FloatArray, encoding: str) -> object:
    """Return the numbers themselves, or the base64 of their fp32 bytes, lowest first."""
    return vector if encoding == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
