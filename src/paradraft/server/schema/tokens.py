"""The bodies of /tokenize and /detokenize, as vLLM has them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from paradraft.server.schema.base import Body
from paradraft.server.schema.chat import Conversation
from paradraft.server.schema.sampling import Whole


class TextToTokenize(Body):
    """A text to write as token ids."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool | None = False


class ConversationToTokenize(Conversation):
    """A conversation to write as token ids."""

    add_special_tokens: bool = False  # templates write them
    return_token_strs: bool | None = False


def _kind(body: object) -> str:
    has_messages = "messages" in body if isinstance(body, dict) else hasattr(body, "messages")
    return "Conversation" if has_messages else "Text"


# Told apart by its fields, so that a mistake is told of the kind that was meant.
Tokenizable = Annotated[
    Annotated[TextToTokenize, Tag("Text")] | Annotated[ConversationToTokenize, Tag("Conversation")],
    Discriminator(_kind),
]


class TokensToText(Body):
    """Token ids to write as text."""

    model: str | None = None
    tokens: Annotated[list[Whole], Field(fail_fast=True)]
