"""From the fields of a body to what the engine is asked."""

from __future__ import annotations

from typing import Any

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import Grammar
from paradraft.core.sampling import SamplingParams
from paradraft.server.errors import ApiError, refused
from paradraft.server.options import ServerOptions
from paradraft.server.schema.sampling import SamplingFields

_SAME_NAMES = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "seed")


def sampling_of(
    body: SamplingFields,
    options: ServerOptions,
    *,
    max_tokens: int,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
    grammar: Grammar | None = None,
) -> SamplingParams:
    """Return the sampling parameters of a body; raise ApiError naming the field that cannot be served."""
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    for name, value, most in (
        ("n", body.n or 1, options.max_choices),
        ("stop", len(stops), options.max_stops),
        ("logit_bias", len(body.logit_bias or {}), options.max_biases),
        ("stop_token_ids", len(body.stop_token_ids or []), options.max_stops),
    ):
        if value > most:
            raise ApiError(400, f"{name}: {value} is more than this server's limit of {most}.", param=name)
    given: dict[str, Any] = {name: getattr(body, name) for name in _SAME_NAMES if getattr(body, name) is not None}
    try:
        return SamplingParams(
            **given,
            top_k=max(0, body.top_k or 0),
            logit_bias=_biases(body.logit_bias or {}),
            stop=tuple(stops),
            stop_token_ids=tuple(body.stop_token_ids or ()),
            min_tokens=body.min_tokens,
            max_tokens=max_tokens,
            ignore_eos=body.ignore_eos,
            n=body.n or 1,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            gamma=body.speculative.gamma,
            speculate=body.speculative.enabled,
            grammar=grammar,
            draft_from=_names(body.speculative.drafter),
        )
    except ConfigError as error:
        raise refused(error) from error


def _biases(given: dict[str, float]) -> dict[int, float]:
    for key in given:
        if not (key.isascii() and key.isdecimal() and len(key) <= 10):
            raise ApiError(400, f"logit_bias: {key!r} is no token id.", param="logit_bias", code="invalid_value")
    return {int(key): bias for key, bias in given.items()}


def _names(given: str | list[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
