"""The body of /v1/embeddings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paradraft.server.schema.base import Body
from paradraft.server.schema.completions import SeveralIds, Texts, TokenIds


class EmbeddingBody(Body):
    """A text or token ids, or several of them. Embeddings have the model's own size, so `dimensions` is refused."""

    input: str | Texts | TokenIds | SeveralIds
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: None = None
    user: Annotated[str, Field(max_length=256)] | None = None
