"""What every route does with a body before the engine sees it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TypeGuard

from anyio import to_thread
from fastapi import Request as HttpRequest

from paradraft.core.ports import Tokenizer
from paradraft.core.requests import Request
from paradraft.core.sampling import MAX_SEED, SamplingParams
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context, new_request_id
from paradraft.server.schema.sampling import SamplingFields

_LONG_TEXT = 20_000  # characters; encoding them takes some milliseconds, in which no token would be sent


def check_model(name: str | None, context: Context) -> None:
    """Raise ApiError for a model that is not served here."""
    served = (context.service.model.name, *context.options.aliases)
    if name is not None and name not in served:
        raise ApiError(
            404,
            f"The model {name[:100]!r} is not served here. Served: {', '.join(served)}.",
            code="model_not_found",
            param="model",
        )


def check_text(text: str, context: Context, param: str) -> None:
    """Raise ApiError for a text that cannot fit, before time is spent on rendering or encoding it."""
    if len(text) > context.max_characters:
        raise ApiError(
            400,
            f"{param}: {len(text)} characters are more than {context.service.model.longest} tokens can hold.",
            code="context_length_exceeded",
            param=param,
        )


async def encode(tokenizer: Tokenizer, text: str, *, add_special: bool = True) -> list[int]:
    """Return the ids of a text, long ones beside the event loop."""
    if len(text) < _LONG_TEXT:
        return tokenizer.encode(text, add_special=add_special)
    return await to_thread.run_sync(lambda: tokenizer.encode(text, add_special=add_special))


def request_of(
    ids: Sequence[int],
    params: SamplingParams,
    body: SamplingFields,
    context: Context,
    http: HttpRequest,
    *,
    index: int = 0,
) -> Request:
    """Return what the engine is asked for the prompt at this index of a body."""
    return Request(
        request_id=new_request_id(),
        prompt=tuple(ids),
        params=params,
        seed=_seed_of(params, index),
        tenant=tenant_of(http),
        label="" if body.metadata is None else body.metadata.class_,
        tells_counts=context.filtering.may_end_choices,
    )


def _seed_of(params: SamplingParams, index: int) -> int:
    """Return the seed of the prompt at this index of a body: its own, or a fresh one."""
    return secrets.randbits(64) if params.seed is None else (params.seed + index) & MAX_SEED


def tenant_of(http: HttpRequest) -> str:
    """Return whose request it is; only requests of one tenant share cached prefixes."""
    return str(http.scope.get("paradraft.tenant", ""))


def as_prompts(
    given: str | list[str] | list[int] | list[list[int]], context: Context, *, param: str
) -> list[str | list[int]]:
    """Return one or several texts or token ids as a list; raise ApiError naming `param` if there are too many."""
    several: list[str | list[int]] = [given] if isinstance(given, str) or _is_ids(given) else [*given]
    limit = context.options.max_prompts
    if len(several) > limit:
        raise ApiError(400, f"{param}: {len(several)} are more than this server's limit of {limit}.", param=param)
    return several


def _is_ids(given: list[str] | list[int] | list[list[int]]) -> TypeGuard[list[int]]:
    return isinstance(given[0], int)
