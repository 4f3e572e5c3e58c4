"""How an answer is sampled, in OpenAI's and vLLM's field names; shared by completions and chat."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from paradraft.core.sampling import EVERY_SOURCE, MAX_CHOICES, MAX_LOGPROBS, MAX_SEED, MAX_STOPS
from paradraft.server.schema.base import Body

MAX_BIASES = 65_536
MAX_CLASS_NAME = 64
_CLASS_NAME = re.compile(rf"[A-Za-z0-9_.:/+-]{{1,{MAX_CLASS_NAME}}}")
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]
Bias = Annotated[float, Field(ge=-100, le=100)]
Stop = Annotated[str, Field(min_length=1, max_length=1024)]
SourceName = Annotated[str, Field(min_length=1, max_length=256)]


def _bounded(biases: object) -> object:
    """Refuse what is far beyond any server's limit before each entry is looked at."""
    if isinstance(biases, dict) and len(biases) > MAX_BIASES:
        raise ValueError(f"{len(biases)} entries are more than {MAX_BIASES}")
    return biases


def _class_name(name: str) -> str:
    """Refuse what could not stand in a figure's label as it is."""
    if not _CLASS_NAME.fullmatch(name):
        raise PydanticCustomError(
            "class_name",
            "{name} is no name of a class: letters, digits and _ . : / + - are, up to {most} of them",
            {"name": repr(name[: MAX_CLASS_NAME + 1]), "most": MAX_CLASS_NAME},
        )
    return name


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


class Metadata(Body):
    """OpenAI's map of texts about a request.

    class: the class of prompt that figures of drafting are kept by; nothing else depends on it.
    """

    class_: Annotated[str, AfterValidator(_class_name), Field(alias="class")] = ""

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_keys(cls, data: object) -> object:
        other = next((key for key in data if key != "class"), None) if isinstance(data, dict) else None
        if other is not None:
            raise PydanticCustomError(
                "metadata_key",
                "the key {key} is not kept anywhere, so it would change nothing; class is the one that is known",
                {"key": repr(str(other)[:MAX_CLASS_NAME])},
            )
        return data


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
    metadata: Metadata | None = None
    speculative: Speculation = Speculation()


class Unavailable(Body):
    """OpenAI fields that are taken in the one value that changes nothing, so that clients' defaults pass."""

    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None


TopLogprobs = Annotated[int, Field(ge=0, le=MAX_LOGPROBS)]
