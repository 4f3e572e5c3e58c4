"""Unmodified clients against a server on loopback: what they send is understood, and what they read is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from paradraft import LLM
from support.scripted import scripted_engine
from support.serving import NAME, Served, served, served_model_of, stub_engine

KEY = "sk-test"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
SCRIPT = (
    ("<tool_response>", "It rains in Rome."),
    ("In JSON, please.", "I would rather not say it in JSON."),
    ("weather", f"Let me look.\n{CALL}"),
    "Hello there! \u00bfQu\u00e9 tal? \U0001f642",
)
HELLO = SCRIPT[-1]
ASK = [{"role": "user", "content": "Say hello"}]


class Weather(BaseModel):
    """What the weather is; every value is one of a few, so that a model made to answer comes to an end."""

    city: Literal["Oslo", "Rome"]
    is_wet: bool


class GetWeather(BaseModel):
    """Tell the weather."""

    city: Literal["Oslo", "Rome"]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted_engine(*SCRIPT), keys=[KEY]) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


@pytest.fixture
def chain(server: Served) -> ChatOpenAI:
    return ChatOpenAI(model=NAME, base_url=f"{server.url}/v1", api_key=KEY, temperature=0, max_retries=0)


class TestOpenai:
    def test_an_answer_has_text_usage_and_a_reason(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(model=NAME, messages=ASK, temperature=0, seed=1)
        assert answer.choices[0].message.content == HELLO
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + len(HELLO.encode()) + 1
        assert (answer.object, answer.model) == ("chat.completion", NAME)

    def test_a_stream_adds_up_and_ends_with_usage(self, client: openai.OpenAI) -> None:
        options = {"include_usage": True}
        stream = client.chat.completions.create(
            model=NAME, messages=ASK, temperature=0, stream=True, stream_options=options
        )
        chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == HELLO
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == len(HELLO.encode()) + 1

    def test_asynchronous_answers_and_streams(self, server: Served) -> None:
        async def both() -> tuple[str | None, str]:
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
                answer, stream = await asyncio.gather(
                    client.chat.completions.create(model=NAME, messages=ASK, temperature=0),
                    client.chat.completions.create(model=NAME, messages=ASK, temperature=0, stream=True),
                )
                pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
                return answer.choices[0].message.content, "".join(pieces)

        assert asyncio.run(both()) == (HELLO, HELLO)

    def test_tools_are_called_and_their_results_answered(self, client: openai.OpenAI) -> None:
        tools = [openai.pydantic_function_tool(GetWeather, name="get_weather")]
        messages: list = [{"role": "user", "content": "How is the weather?"}]
        first = client.chat.completions.create(model=NAME, messages=messages, tools=tools, temperature=0)
        message = first.choices[0].message
        assert message.content == "Let me look."
        assert message.tool_calls is not None
        assert message.tool_calls[0].function.arguments == '{"city": "Rome"}'
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
        second = client.chat.completions.create(
            model=NAME, messages=[*messages, message.model_dump(), result], tools=tools, temperature=0
        )
        assert second.choices[0].message.content == "It rains in Rome."

    def test_the_stream_helper_puts_calls_together(self, client: openai.OpenAI) -> None:
        tools = [openai.pydantic_function_tool(GetWeather, name="get_weather")]
        messages = [{"role": "user", "content": "How is the weather?"}]
        with client.chat.completions.stream(model=NAME, messages=messages, tools=tools, temperature=0) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        call = final.choices[0].message.tool_calls[0].function
        assert call.parsed_arguments == GetWeather(city="Rome")
        assert final.choices[0].finish_reason == "tool_calls"
        assert "content.delta" in kinds

    def test_a_forced_call_keeps_to_its_schema(self, client: openai.OpenAI) -> None:
        tools = [openai.pydantic_function_tool(GetWeather, name="get_weather")]
        answer = client.chat.completions.parse(
            model=NAME,
            messages=ASK,
            tools=tools,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            temperature=0,
        )
        call = answer.choices[0].message.tool_calls[0].function
        assert isinstance(call.parsed_arguments, GetWeather)

    def test_the_parse_helper_gets_what_it_asked_for(self, client: openai.OpenAI) -> None:
        messages = [{"role": "user", "content": "In JSON, please."}]
        answer = client.chat.completions.parse(model=NAME, messages=messages, response_format=Weather, temperature=0)
        assert isinstance(answer.choices[0].message.parsed, Weather)

    def test_raw_responses_tell_the_request_id(self, client: openai.OpenAI) -> None:
        raw = client.chat.completions.with_raw_response.create(model=NAME, messages=ASK, max_tokens=2)
        assert raw.headers["x-request-id"]
        assert raw.request_id == raw.headers["x-request-id"]
        assert raw.parse().usage.completion_tokens == 2

    def test_log_probabilities_have_their_types(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(model=NAME, messages=ASK, logprobs=True, top_logprobs=2, max_tokens=3)
        content = answer.choices[0].logprobs.content
        assert [each.token for each in content] == ["H", "e", "l"]
        assert content[0].bytes == [72]
        assert [len(each.top_logprobs) for each in content] == [2, 2, 2]

    def test_completions_and_models(self, client: openai.OpenAI) -> None:
        answer = client.completions.create(model=NAME, prompt="assistant: ", temperature=0, max_tokens=5)
        assert answer.choices[0].text == "Hello"
        assert [model.id for model in client.models.list()] == [NAME]

    @pytest.mark.parametrize(
        ("fields", "kind"),
        [
            ({"n": 17}, openai.BadRequestError),
            ({"model": "gpt-4"}, openai.NotFoundError),
            ({"extra_body": {"temprature": 1}}, openai.UnprocessableEntityError),
        ],
    )
    def test_mistakes_raise_the_class_of_their_status(self, client: openai.OpenAI, fields: dict, kind: type) -> None:
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**{"model": NAME, "messages": ASK, **fields})
        assert caught.value.body["message"]
        assert caught.value.param in ("n", "model", "temprature")

    def test_a_wrong_key_is_an_authentication_error(self, server: Served) -> None:
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            client.models.list()
        assert caught.value.code == "invalid_api_key"

    def test_a_full_queue_and_a_stopping_server_have_their_classes(self) -> None:
        with (
            served(stub_engine()) as server,
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
        ):
            server.context.switchboard._num_open = 10_000
            with pytest.raises(openai.RateLimitError) as full:
                client.chat.completions.create(model=NAME, messages=ASK)
            server.context.switchboard._num_open = 0
            server.context.admission.is_draining = True
            with pytest.raises(openai.InternalServerError) as stopping:
                client.chat.completions.create(model=NAME, messages=ASK)
        assert full.value.response.headers["retry-after"] == "1"
        assert stopping.value.status_code == 503


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"rain in {city}"


class TestLangchain:
    def test_invoke(self, chain: ChatOpenAI) -> None:
        answer = chain.invoke([SystemMessage("Be brief."), HumanMessage("Say hello")])
        assert answer.content == HELLO
        assert answer.usage_metadata["output_tokens"] == len(HELLO.encode()) + 1

    def test_stream(self, chain: ChatOpenAI) -> None:
        assert "".join(str(chunk.content) for chunk in chain.stream("Say hello")) == HELLO

    def test_bound_tools_are_called_and_answered(self, chain: ChatOpenAI) -> None:
        bound = chain.bind_tools([get_weather])
        question = HumanMessage("How is the weather?")
        asked = bound.invoke([question])
        assert isinstance(asked, AIMessage)
        assert [(call["name"], call["args"]) for call in asked.tool_calls] == [("get_weather", {"city": "Rome"})]
        result = ToolMessage("rain", tool_call_id=asked.tool_calls[0]["id"])
        assert bound.invoke([question, asked, result]).content == "It rains in Rome."

    def test_streamed_calls_are_put_together(self, chain: ChatOpenAI) -> None:
        total = None
        for chunk in chain.bind_tools([get_weather]).stream("How is the weather?"):
            total = chunk if total is None else total + chunk
        assert [(call["name"], call["args"]) for call in total.tool_calls] == [("get_weather", {"city": "Rome"})]

    @pytest.mark.parametrize("method", ["json_schema", "function_calling"])
    def test_structured_output(self, chain: ChatOpenAI, method: str) -> None:
        answer = chain.with_structured_output(Weather, method=method).invoke("In JSON, please.")
        assert isinstance(answer, Weather)


class TestPydanticAi:
    """Through a client that is closed; the library keeps its own one open."""

    def run(self, server: Served, question: str, tools: Sequence[object] = (), output: object = str) -> object:
        async def ask() -> object:
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
                model = OpenAIChatModel(NAME, provider=OpenAIProvider(openai_client=client))
                agent = Agent(model, output_type=output, tools=tools, model_settings={"temperature": 0.0})
                return (await agent.run(question)).output

        return asyncio.run(ask())

    @pytest.mark.parametrize("output", [Weather, NativeOutput(Weather)], ids=["by a call", "by a schema"])
    def test_structured_output(self, server: Served, output: object) -> None:
        assert isinstance(self.run(server, "In JSON, please.", output=output), Weather)

    def test_an_agent_uses_its_tool(self, server: Served) -> None:
        asked: list[str] = []

        def get_weather(city: str) -> str:
            """Tell the weather."""
            asked.append(city)
            return "rain"

        assert self.run(server, "How is the weather?", tools=[get_weather]) == "It rains in Rome."
        assert asked == ["Rome"]


@pytest.mark.real_model
def test_a_conversation_with_the_built_in_model() -> None:
    messages: list = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    with (
        LLM("smollm2-135m", kv_tokens=2048) as llm,
        served_model_of(llm) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        first = client.chat.completions.create(model="smollm2-135m", messages=messages, temperature=0, max_tokens=48)
        message = first.choices[0].message
        more = [*messages, message.model_dump(), {"role": "user", "content": "And of Italy?"}]
        with client.chat.completions.stream(
            model="smollm2-135m", messages=more, temperature=0, max_tokens=48
        ) as stream:
            final = stream.get_final_completion()
        again = client.chat.completions.create(
            model="smollm2-135m",
            messages=more,
            temperature=0,
            max_tokens=48,
            extra_body={"speculative": {"enabled": False}},
        )
    assert "Paris" in message.content
    assert final.choices[0].message.content == again.choices[0].message.content
    assert final.choices[0].message.content
