"""What becomes of a request on its way in: the checks that refuse it, and what verification is told of it."""

from __future__ import annotations

from paradraft.core.errors import ConfigError, RequestRefused
from paradraft.core.ports import Limits
from paradraft.core.records import RowSampling
from paradraft.core.requests import Request
from paradraft.kv.pages import PageCache


def sampling_of(request: Request, choice: int, eos_ids: tuple[int, ...]) -> RowSampling:
    """Return what verification needs to know of one choice."""
    params = request.params
    stops = set(params.stop_token_ids) | (set() if params.ignore_eos else set(eos_ids))
    return RowSampling(
        params=params,
        seed=request.seed,
        choice=choice,
        prompt_len=len(request.prompt),
        stop_ids=tuple(sorted(stops)),
        tenant=request.tenant,
    )


def check_request(request: Request, limits: Limits, longest: int) -> None:
    """Raise RequestRefused, naming value, reason and remedy, for a request this engine cannot serve.

    `longest` is the most tokens one row may hold, prompt and output together.
    """
    if not request.prompt:
        raise RequestRefused("The prompt has no tokens.", remedy="Send at least one token.")
    if len(request.prompt) >= longest:
        is_full = longest >= limits.max_positions
        raise RequestRefused(
            f"The prompt has {len(request.prompt)} tokens, and a row holds {longest} with its answer"
            f"{', which is the whole context of the model' if is_full else ''}.",
            remedy="Shorten the prompt."
            if is_full
            else f"Shorten the prompt, or raise max_model_len and kv_tokens, up to {limits.max_positions}.",
        )
    _check_ids("The prompt", request.prompt, limits.vocab_size)
    _check_ids("stop_token_ids", request.params.stop_token_ids, limits.vocab_size)
    _check_ids("logit_bias", tuple(request.params.logit_bias), limits.vocab_size)


def check_room(longest: int, pages: PageCache) -> None:
    """Raise ConfigError if the cache could never hold a row of `longest` tokens."""
    room = pages.num_pages * pages.page_size
    if longest > room:
        raise ConfigError(
            f"A row may hold {longest} tokens, but the cache holds {room}.",
            remedy="Set `longest` to at most that, or make the cache larger.",
        )


def _check_ids(where: str, ids: tuple[int, ...], vocab_size: int) -> None:
    if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
        foreign = next(token for token in ids if not 0 <= token < vocab_size)
        raise RequestRefused(
            f"{where} names token id {foreign}, and the model has the ids 0 to {vocab_size - 1}.",
            remedy="Use this model's own tokenizer.",
        )
