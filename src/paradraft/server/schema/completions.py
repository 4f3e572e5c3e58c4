"""The body of /v1/completions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paradraft.server.schema.sampling import SamplingFields, TopLogprobs, Unavailable, Whole
from paradraft.server.schema.structured import StructuredFields

TokenIds = Annotated[list[Whole], Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]
SeveralIds = Annotated[list[TokenIds], Field(min_length=1)]


class CompletionBody(SamplingFields, StructuredFields, Unavailable):
    """A text or token ids to go on from, or several of them."""

    prompt: str | Texts | TokenIds | SeveralIds
    max_tokens: Whole | None = 16
    echo: bool = False
    logprobs: TopLogprobs | None = None
    best_of: Literal[1] | None = None
    suffix: None = None
