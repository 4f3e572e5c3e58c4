from __future__ import annotations

from datetime import datetime

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from paradraft.core.errors import ModelError, RequestRefused
from paradraft.models.chat_template import ChatTemplate

USER = {"role": "user", "content": 'Say "hi" & <bye>\n'}
ASSISTANT = {"role": "assistant", "content": "caf\u00e9"}
TEMPLATES = {
    "blocks are trimmed": (
        "{% for m in messages %}\n    {% if m.role == 'user' %}\nU:{{ m.content }}\n    {% endif %}\n{% endfor %}"
    ),
    "json is not escaped": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "loops can break": "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "generation blocks": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "prompt": "{{ bos_token }}{{ messages[-1].content | trim }}{% if add_generation_prompt %}A:{% endif %}",
    "tools are none": "{% if tools is none and documents is none %}none{% endif %}{{ custom is defined }}",
    "methods of texts": "{{ messages[0]['content'].split('&')[0].upper() }}{{ messages | length }}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"bos_token": "<s>"}, now=lambda: datetime(2024, 7, 26))


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_templates_render_as_in_transformers(name: str, add_generation_prompt: bool) -> None:
    conversation = [USER, ASSISTANT]
    ours = template(TEMPLATES[name]).render(conversation, add_generation_prompt=add_generation_prompt)
    theirs, _ = render_jinja_template(
        conversations=[conversation],
        chat_template=TEMPLATES[name],
        add_generation_prompt=add_generation_prompt,
        bos_token="<s>",
    )
    assert ours == theirs[0]


def test_the_date_comes_from_the_clock_given() -> None:
    assert template("{{ strftime_now('%d %b %Y') }}").render([USER], add_generation_prompt=True) == "26 Jul 2024"


def test_what_the_template_refuses_is_refused_as_a_request_with_its_reason() -> None:
    refusing = template("{{ raise_exception('Only user roles are supported!') }}")
    with pytest.raises(RequestRefused, match="Only user roles are supported!"):
        refusing.render([USER], add_generation_prompt=True)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ raise_exception.__globals__ }}",
        "{{ range(10000000) | list }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    messages = [dict(USER)]
    try:
        text = template(source).render(messages, add_generation_prompt=True)
    except RequestRefused:
        text = ""
    assert text == ""
    assert messages == [USER]


def test_a_template_that_cannot_be_compiled_is_the_models_fault() -> None:
    with pytest.raises(ModelError, match="cannot be compiled"):
        template("{% for %}")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages is empty"),
        ([{"role": "user"}], r"messages\[0\] has no text for content"),
        ([USER, {"content": "x"}], r"messages\[1\] has no text for role"),
        ([{"role": "user", "content": None}], r"messages\[0\] has no text for content"),
        (["x"], r"messages\[0\] has no text for role"),
    ],
)
def test_messages_that_are_none_are_refused(messages: list[dict[str, str]], reason: str) -> None:
    with pytest.raises(RequestRefused, match=reason):
        template("x").render(messages, add_generation_prompt=True)


TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look <here>", "parameters": {"type": "object"}},
}


def test_tools_are_written_as_in_transformers() -> None:
    source = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}{{ messages[0].content }}"
    ours = template(source).render([USER], add_generation_prompt=True, tools=[TOOL])
    theirs, _ = render_jinja_template(conversations=[[USER]], tools=[TOOL], chat_template=source)
    assert ours == theirs[0]
    assert "Look <here>" in ours


def test_a_template_that_reads_tools_knows_them() -> None:
    assert template("{% if tools %}{{ tools }}{% endif %}").knows_tools
    assert not template("{{ messages }}{% set tools = 1 %}").knows_tools


def test_calls_in_messages_reach_the_template() -> None:
    call = {"type": "function", "id": "a", "function": {"name": "look", "arguments": {"at": "sea"}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    source = "{% for call in messages[-1].tool_calls %}{{ call.function.arguments.at }}{% endfor %}"
    assert template(source).render([USER, message], add_generation_prompt=False) == "sea"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in messages %}{% for b in messages %}{% for c in messages %}{{ c.role }}{% endfor %}{% endfor %}"
        "{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = messages[0].role %}{% endfor %}{% endfor %}",
    ],
)
def test_a_rendering_that_takes_too_long_is_ended(source: str) -> None:
    with pytest.raises(RequestRefused, match="takes too long"):
        template(source).render([USER] * 500, add_generation_prompt=True, max_seconds=0.05)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in messages %}{% for b in messages %}{{ b.content }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(t='') %}{% for a in messages %}{% for b in messages %}"
        "{% set ns.t = ns.t + b.content %}{% endfor %}{% endfor %}",
        "{% set x = messages[0].content * 1000000000 %}",
        "{{ messages[0].content.replace('<', 'x' * 900) }}",
    ],
)
def test_a_rendering_that_writes_too_much_is_refused(source: str) -> None:
    message = {"role": "user", "content": "<" * 100}
    with pytest.raises(RequestRefused, match=r"characters|too often"):
        template(source).render([message] * 100, add_generation_prompt=True, max_characters=10_000)


def test_messages_and_tools_that_are_nested_very_deeply_are_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"properties": deep}
    with pytest.raises(RequestRefused, match="nested more than"):
        template("{{ tools | tojson }}").render([USER], add_generation_prompt=True, tools=[deep])
