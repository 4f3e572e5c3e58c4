"""/v1/completions: text, token ids, and batches of either."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from starlette.responses import Response

from paradraft.core.sampling import SamplingParams
from paradraft.server.answers.completion import CompletionFormat
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context, exchange_of
from paradraft.server.request_parts import as_prompts, check_model, check_text, encode, request_of
from paradraft.server.respond import respond
from paradraft.server.sampling import sampling_of
from paradraft.server.schema.completions import CompletionBody
from paradraft.server.schema.errors import ANSWERS
from paradraft.server.structured import grammar_of


def completions(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()

    @router.post("/v1/completions", summary="Go on from a text or from token ids", responses=ANSWERS)
    async def complete(body: CompletionBody, http: HttpRequest) -> Response:
        check_model(body.model, context)
        prompts = as_prompts(body.prompt, context, param="prompt")
        params = _params(body, context)
        tokenizer = context.service.tokenizer
        for prompt in prompts:
            if isinstance(prompt, str):
                check_text(prompt, context, "prompt")
        encoded = [await encode(tokenizer, prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        requests = [request_of(ids, params, body, context, http, index=index) for index, ids in enumerate(encoded)]
        for request in requests:
            context.service.check(request)  # before any of it is spelled out again
        texts = [
            "" if not body.echo else prompt if isinstance(prompt, str) else tokenizer.decode(prompt, skip_special=False)
            for prompt in prompts
        ]
        answers = CompletionFormat(tokenizer, requests, texts, echoes=body.echo, answers=body.max_tokens != 0)
        exchange = await exchange_of(body, context, requests, answers, counts=body.max_tokens != 0)
        return await respond(exchange, context, http)

    return router


def _params(body: CompletionBody, context: Context) -> SamplingParams:
    if body.max_tokens == 0 and not body.echo:
        raise ApiError(400, "max_tokens: 0 asks for nothing without echo. Use 1 or more.", param="max_tokens")
    longest = context.service.model.longest
    return sampling_of(
        body,
        context.options,
        # The engine always makes one token; where only the prompt is asked for it is left out again.
        max_tokens=longest if body.max_tokens is None else max(1, body.max_tokens),
        logprobs=body.logprobs,
        prompt_logprobs=body.logprobs if body.echo else None,
        grammar=grammar_of(body),
    )
