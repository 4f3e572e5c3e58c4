"""The body of /v1/chat/completions, and the messages in it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from paradraft.server.schema.base import Body
from paradraft.server.schema.sampling import SamplingFields, TopLogprobs, Unavailable, Whole
from paradraft.server.schema.structured import StructuredFields
from paradraft.server.schema.tools import ToolCall, ToolChoice, Tools

MAX_MESSAGES = 4096
MAX_CALLS = 128


class TextPart(Body):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


# Lists of any length end at their first mistake: telling of each would take seconds.
Parts = Annotated[list[TextPart], Field(fail_fast=True)]


class Message(Body):
    """One message of any role; only tools answer calls, and only assistants make them."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Parts | None = None
    name: Annotated[str, Field(max_length=256)] | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS)] | None = None
    tool_call_id: Annotated[str, Field(max_length=256)] | None = None
    # Fields of answers, which clients send back empty.
    refusal: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None

    @field_validator("content", mode="before")
    @classmethod
    def _refuse_other_parts(cls, content: object) -> object:
        for index, part in enumerate(content) if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind != "text":
                raise PydanticCustomError(
                    "content_part",
                    "part {index} has the type {kind}, and this server takes text only; it fetches nothing",
                    {"index": index, "kind": repr(kind[:40])},
                )
        return content

    @model_validator(mode="after")
    def _fit_role(self) -> Message:
        wrong = ""
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            wrong = "content is missing"
        elif self.tool_calls and self.role != "assistant":
            wrong = f"tool_calls cannot come from the role {self.role}"
        elif (self.tool_call_id is not None) != (self.role == "tool"):
            wrong = "tool_call_id is missing" if self.role == "tool" else "tool_call_id belongs to the role tool"
        if wrong:
            raise PydanticCustomError("message", "{wrong}", {"wrong": wrong})
        return self

    @property
    def text(self) -> str:
        """Return the content as one text."""
        if self.content is None:
            return ""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


Messages = Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]


class Conversation(Body):
    """What becomes a prompt through the model's chat template; also a body of /tokenize."""

    model: str | None = None
    messages: Messages
    tools: Tools | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template: None = None  # a request brings no code


class ChatBody(SamplingFields, StructuredFields, Conversation, Unavailable):
    """A conversation to answer."""

    max_tokens: Annotated[Whole, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[Whole, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    # OpenAI's fields for what this server does not do; clients send them empty.
    audio: None = None
    modalities: Annotated[list[Literal["text"]], Field(fail_fast=True)] | None = None
    prediction: None = None
    reasoning_effort: None = None
    verbosity: None = None
    web_search_options: None = None
    functions: None = None
    function_call: None = None
