"""What callers of the library give: prompts as texts or token ids, and sampling parameters for one or for all."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np

from paradraft.core.errors import ConfigError, RequestRefused
from paradraft.core.sampling import SamplingParams

Prompt = str | Sequence[int]


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Return one prompt or several as a list."""
    if isinstance(prompts, str) or (len(prompts) and _is_id(prompts[0])):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def as_ids(prompt: Sequence[int]) -> list[int]:
    """Return the ids as whole numbers of Python; raise RequestRefused for what is none, which is not rounded."""
    try:
        return [index(token) for token in prompt]
    except TypeError as error:
        raise RequestRefused(
            f"A prompt is neither a text nor token ids ({error}).", remedy="Send a str, or whole numbers."
        ) from error


def as_params(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    """Return parameters for each of `count` prompts; raise ConfigError where their number is another."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if len(params) != count:
        raise ConfigError(
            f"There are {len(params)} sampling parameters for {count} prompts.",
            remedy="Give one for all prompts, or one for each.",
        )
    return list(params)


def _is_id(value: object) -> bool:
    return not isinstance(value, str) and np.ndim(value) == 0  # type: ignore[arg-type]
