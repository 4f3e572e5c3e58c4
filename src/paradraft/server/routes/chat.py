"""/v1/chat/completions: conversations, with tools."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from starlette.responses import Response

from paradraft.core.grammar import Grammar
from paradraft.core.sampling import SamplingParams
from paradraft.server.answers.chat import ChatFormat
from paradraft.server.chat_prompts import prompt_of
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context, exchange_of
from paradraft.server.request_parts import check_model, check_text, encode, request_of
from paradraft.server.respond import respond
from paradraft.server.sampling import sampling_of
from paradraft.server.schema.chat import ChatBody
from paradraft.server.schema.errors import ANSWERS
from paradraft.server.structured import grammar_of
from paradraft.server.tools.grammar import grammar_of_calls
from paradraft.server.tools.use import ToolUse, tool_use_of


def chat(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()

    @router.post("/v1/chat/completions", summary="Answer a conversation", responses=ANSWERS)
    async def answer(body: ChatBody, http: HttpRequest) -> Response:
        check_model(body.model, context)
        context.admission.check_early(body.n or 1)
        use = _tool_use(body, context)
        params = _params(body, context, _grammar(body, use))
        tokenizer = context.service.tokenizer
        text = await prompt_of(body, context, use)
        check_text(text, context, "messages")
        ids = await encode(tokenizer, text, add_special=False)
        request = request_of(ids, params, body, context, http)
        answers = ChatFormat(tokenizer, use, tells_logprobs=bool(body.logprobs))
        return await respond(await exchange_of(body, context, [request], answers), context, http)

    return router


def _tool_use(body: ChatBody, context: Context) -> ToolUse | None:
    return tool_use_of(
        body.tools,
        context.service.tokenizer,
        named_format=context.options.tool_format,
        choice=body.tool_choice,
        several=body.parallel_tool_calls is not False,
    )


def _grammar(body: ChatBody, use: ToolUse | None) -> Grammar | None:
    grammar = grammar_of(body)
    if grammar is not None and use is not None:
        raise ApiError(
            400,
            "tools: an answer that may be a call cannot be held to another form. Leave one out, or set tool_choice "
            "to none.",
            param="tools",
            code="unsupported",
        )
    return grammar if use is None else grammar_of_calls(use)


def _params(body: ChatBody, context: Context, grammar: Grammar | None) -> SamplingParams:
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(400, "top_logprobs: set logprobs to true with it.", param="top_logprobs", code="invalid_value")
    limits = {body.max_tokens, body.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise ApiError(
            400,
            "max_completion_tokens: max_tokens says something else. Send one of them.",
            param="max_completion_tokens",
            code="invalid_value",
        )
    return sampling_of(
        body,
        context.options,
        max_tokens=limits.pop() or 1 if limits else context.service.model.longest,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        grammar=grammar,
    )
