"""How an answer is sampled, in OpenAI's and vLLM's field names; shared by completions and chat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from paradraft.core.sampling import EVERY_SOURCE, MAX_CHOICES, MAX_LOGPROBS, MAX_SEED, MAX_STOPS
from paradraft.server.schema.base import Body

MAX_BIASES = 65_536
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]
Bias = Annotated[float, Field(ge=-100, le=100)]
Stop = Annotated[str, Field(min_length=1, max_length=1024)]
SourceName = Annotated[str, Field(min_length=1, max_length=256)]


def _bounded(biases: object) -> object:
    """Refuse what is far beyond any server's limit before each entry is looked at."""
    if isinstance(biases, dict) and len(biases) > MAX_BIASES:
        raise ValueError(f"{len(biases)} entries are more than {MAX_BIASES}")
    return biases


class StreamOptions(Body):
    """What a stream tells besides the text."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Speculation(Body):
    """An extension: how this request drafts, and whether the answer tells about it. None of it changes the text.

    drafter: which of the drafter's sources may draft: `auto` for all, `none`, a name or several.
    """

    enabled: bool = True
    drafter: SourceName | Annotated[list[SourceName], Field(max_length=MAX_STOPS)] = EVERY_SOURCE
    gamma: Annotated[int, Field(ge=0, le=64)] | None = None
    stats: bool = False
    origins: bool = False


class SamplingFields(Body):
    """Fields of one generation."""

    model: str | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    logit_bias: Annotated[dict[str, Bias] | None, BeforeValidator(_bounded)] = None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS, fail_fast=True)] | None = None
    stop_token_ids: Annotated[list[Whole], Field(max_length=MAX_STOPS, fail_fast=True)] | None = None
    min_tokens: Whole = 0
    ignore_eos: bool = False
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Annotated[str, Field(max_length=256)] | None = None
    speculative: Speculation = Speculation()


class Unavailable(Body):
    """OpenAI fields that are taken in the one value that changes nothing, so that clients' defaults pass."""

    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None


TopLogprobs = Annotated[int, Field(ge=0, le=MAX_LOGPROBS)]
