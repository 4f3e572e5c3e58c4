"""Bytes and a chat template, with control tokens that open calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paradraft.models.chat_template import ChatTemplate
from support.byte_tokenizer import SPECIAL, ByteTokenizer

# What templates of three families say of tools, in short.
HERMES = (
    "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>\n{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
LLAMA3 = (
    '{% if tools %}Respond with {"name": function name, "parameters": dictionary}.\n{{ tools | tojson }}\n{% endif %}'
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
MISTRAL = (
    "{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% if m.tool_calls %}[TOOL_CALLS]{% for call in m.tool_calls %}"
    "{% if call.id | length != 9 %}{{ raise_exception('ids have 9 letters') }}{% endif %}"
    "{{ call.function | tojson }}{% endfor %}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
UNKNOWN = "{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}assistant: "
TEMPLATES = {"hermes": HERMES, "llama3_json": LLAMA3, "mistral": MISTRAL, "unknown": UNKNOWN}


class TemplatedTokenizer(ByteTokenizer):
    """The byte tokenizer behind a template; its one control token is [TOOL_CALLS]."""

    def __init__(self, template: str) -> None:
        super().__init__()
        self.chat_template = template
        self._template = ChatTemplate(template, {})
        self.template_knows_tools = self._template.knows_tools

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        before, mark, behind = text.partition("[TOOL_CALLS]")
        return [*super().encode(before), *([SPECIAL, *self.encode(behind)] if mark else [])]

    def token_bytes(self, token: int) -> bytes:
        return b"[TOOL_CALLS]" if token == SPECIAL else super().token_bytes(token)

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        return self._template.render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
