"""The body of /v1/completions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paradraft.server.schema.sampling import SamplingFields, TopLogprobs, Unavailable, Whole
from paradraft.server.schema.structured import StructuredFields

MAX_PROMPTS = 4096  # that any server takes; its options bound it further
# Of a list, the first mistake is told: millions of them would take longer to collect than the list to read.
TokenIds = Annotated[list[Whole], Field(min_length=1, fail_fast=True)]
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
SeveralIds = Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]


class CompletionBody(SamplingFields, StructuredFields, Unavailable):
    """A text or token ids to go on from, or several of them."""

    prompt: str | Texts | TokenIds | SeveralIds
    max_tokens: Whole | None = 16
    echo: bool = False
    logprobs: TopLogprobs | None = None
    best_of: Literal[1] | None = None
    suffix: None = None
