"""From a conversation to the text that the model goes on from."""

from __future__ import annotations

import json

from anyio import to_thread

from paradraft.core.ports import Tokenizer
from paradraft.server.errors import ApiError
from paradraft.server.exchange import Context
from paradraft.server.schema.chat import Conversation, Message
from paradraft.server.tools.preamble import Message as Written
from paradraft.server.tools.preamble import as_plain_messages, description_of
from paradraft.server.tools.use import ToolUse

_LONG = 10_000  # characters that are rendered beside the event loop, in which no token would be sent
_MANY = 50  # messages


async def prompt_of(body: Conversation, context: Context, use: ToolUse | None) -> str:
    """Return the prompt's text, special tokens included; raise ApiError or RequestRefused if there is none."""
    _check(body)
    tokenizer = context.service.tokenizer
    is_long = use is not None or len(body.messages) > _MANY or sum(len(each.text) for each in body.messages) > _LONG
    if is_long:
        return await to_thread.run_sync(_render, body, tokenizer, use)
    return _render(body, tokenizer, use)


def _render(body: Conversation, tokenizer: Tokenizer, use: ToolUse | None) -> str:
    knows_developer = "developer" in (tokenizer.chat_template or "")
    messages = [_written(message, index, knows_developer) for index, message in enumerate(body.messages)]
    adds = body.add_generation_prompt and not body.continue_final_message
    if use is None or use.template_knows:
        tools = None if use is None else [description_of(tool) for tool in use.described]
        text = tokenizer.render_chat(messages, tools=tools, add_generation_prompt=adds)
    else:
        text = tokenizer.render_chat(as_plain_messages(messages, use.described), add_generation_prompt=adds)
    if body.continue_final_message:
        text = _cut_behind(text, body.messages[-1].text)
    return text + (use.form.forced_opening if use is not None and use.must_call else "")


def _check(body: Conversation) -> None:
    if not body.continue_final_message:
        return
    if "add_generation_prompt" in body.model_fields_set and body.add_generation_prompt:
        raise ApiError(
            400,
            "continue_final_message: the last message cannot go on where add_generation_prompt begins a new one.",
            param="continue_final_message",
            code="invalid_value",
        )
    if not body.messages[-1].text.strip():
        raise ApiError(
            400,
            "continue_final_message: the last message has no text to go on from.",
            param="continue_final_message",
            code="invalid_value",
        )


def _cut_behind(text: str, final: str) -> str:
    """Return the conversation up to the end of its last message's text, which some templates strip of blanks."""
    for ending in (final, final.strip()):
        at = text.rfind(ending)
        if at >= 0:
            return text[: at + len(ending)]
    raise ApiError(
        400,
        "continue_final_message: the model's chat template does not write the last message as it was sent.",
        param="continue_final_message",
        code="invalid_value",
    )


def _written(message: Message, index: int, knows_developer: bool) -> Written:
    """Return a message as chat templates know it, arguments of calls as objects."""
    role = "system" if message.role == "developer" and not knows_developer else message.role
    written: Written = {"role": role, "content": message.text}
    if message.name is not None:
        written["name"] = message.name
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": _arguments(call.function.arguments, f"messages[{index}].tool_calls[{at}]"),
                },
            }
            for at, call in enumerate(message.tool_calls)
        ]
    return written


def _arguments(text: str, where: str) -> dict[str, object]:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        param = f"{where}.function.arguments"
        raise ApiError(400, f"{param}: this is no JSON object.", param=param, code="invalid_value")
    return arguments
