"""What an answer has to look like, in OpenAI's field and in vLLM's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from paradraft.server.schema.base import Body

Schema = dict[str, Any] | str
Choices = Annotated[list[str], Field(fail_fast=True)]


class NamedSchema(Body):
    """A JSON schema with a name; it is always enforced, strict or not."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Body):
    """OpenAI's way to ask for JSON."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None

    @model_validator(mode="after")
    def _fit_type(self) -> ResponseFormat:
        if (self.json_schema is not None) != (self.type == "json_schema"):
            raise PydanticCustomError("response_format", "json_schema comes with the type json_schema, and only then")
        return self


class StructuredOutputs(Body):
    """vLLM's way to ask for a form; one of them."""

    json_: Annotated[Schema | None, Field(alias="json")] = None
    json_object: bool | None = None
    regex: str | None = None
    choice: Choices | None = None
    grammar: str | None = None


class StructuredFields(Body):
    """All ways to ask for a form; one of them at most."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    # The older names of vLLM's.
    guided_json: Schema | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
