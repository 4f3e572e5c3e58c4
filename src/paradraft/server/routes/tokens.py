"""/tokenize and /detokenize, as vLLM answers them."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter

from paradraft.server.answers.usage import Json
from paradraft.server.chat_prompts import prompt_of
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context
from paradraft.server.request_parts import check_model, encode
from paradraft.server.schema.errors import POST_ERRORS
from paradraft.server.schema.tokens import ConversationToTokenize, TextToTokenize, Tokenizable, TokensToText
from paradraft.server.tools.use import tool_use_of

_MANY_TOKENS = 4_000


def tokens(context: Context) -> APIRouter:
    """Return the router."""
    router = APIRouter()
    tokenizer = context.service.tokenizer

    @router.post("/tokenize", summary="Write a text or a conversation as token ids", responses=POST_ERRORS)
    async def tokenize(body: Tokenizable) -> Json:
        check_model(body.model, context)
        text = body.prompt if isinstance(body, TextToTokenize) else await _prompt(body, context)
        ids = await encode(tokenizer, text, add_special=body.add_special_tokens)
        spellings = [tokenizer.spelling(token) or "" for token in ids] if body.return_token_strs else None
        return {
            "count": len(ids),
            "max_model_len": context.service.model.longest,
            "tokens": ids,
            "token_strs": spellings,
        }

    @router.post("/detokenize", summary="Write token ids as text", responses=POST_ERRORS)
    async def detokenize(body: TokensToText) -> Json:
        check_model(body.model, context)
        ids = body.tokens
        _check_ids(ids, context.service.model.vocab_size)
        if len(ids) < _MANY_TOKENS:
            return {"prompt": tokenizer.decode(ids, skip_special=False)}
        return {"prompt": await to_thread.run_sync(lambda: tokenizer.decode(ids, skip_special=False))}

    return router


async def _prompt(body: ConversationToTokenize, context: Context) -> str:
    use = tool_use_of(body.tools, context.service.tokenizer, named_format=context.options.tool_format)
    return await prompt_of(body, context, use)


def _check_ids(ids: list[int], vocab_size: int) -> None:
    if ids and max(ids) >= vocab_size:
        raise ApiError(
            400,
            f"tokens: the id {max(ids)} is none of the model's, which go from 0 to {vocab_size - 1}.",
            param="tokens",
            code="invalid_value",
        )
