"""Grammars through the library, on real text and on both runners."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paradraft import LLM, Grammar, SamplingParams
from paradraft.core.errors import RequestRefused
from paradraft.core.records import FinishReason
from paradraft.models.tiny import write_tiny_model
from support.native import needs_native

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"enum": ["Paris", "Lyon"]},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
CHAT = [{"role": "user", "content": "Invent a person who lives in Paris, as JSON with name, age and city."}]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)
    with LLM(str(folder), dtype="fp32", runner="torch", kv_tokens=512, drafter="suffix") as llm:
        yield llm


@pytest.fixture(scope="module")
def real() -> Iterator[LLM]:
    with LLM("smollm2-135m", kv_tokens=4096) as llm:
        yield llm


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_torch_runner_keeps_to_a_regular_expression(tiny: LLM, temperature: float) -> None:
    pattern = r"(ab|ba){2,4}\d"
    params = SamplingParams(temperature=temperature, seed=5, grammar=Grammar.regex(pattern), n=3)
    drafted = tiny.generate("one two", params)[0]
    plain = tiny.generate("one two", replace(params, speculate=False))[0]
    assert [choice.token_ids for choice in drafted.choices] == [choice.token_ids for choice in plain.choices]
    assert all(choice.finish_reason is FinishReason.STOP for choice in drafted.choices)
    assert all(re.fullmatch(pattern, choice.text) for choice in drafted.choices)


def test_nothing_runs_where_one_of_several_grammars_is_wrong(tiny: LLM) -> None:
    params = [SamplingParams(max_tokens=3), SamplingParams(grammar=Grammar.regex("("))]
    with pytest.raises(RequestRefused, match="unclosed group"):
        tiny.generate(["one", "two"], params)
    with pytest.raises(RequestRefused, match="nosuch"):
        tiny.stream("one", SamplingParams(grammar=Grammar.json_schema({"type": "string", "format": "nosuch"})))
    assert not tiny.engine.has_work
    assert tiny.generate("one", SamplingParams(max_tokens=3))[0].choices[0].token_ids


@pytest.mark.real_model
@needs_native
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_built_in_model_writes_what_a_schema_describes(real: LLM, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=11, max_tokens=90, grammar=Grammar.json_schema(PERSON))
    ids = real.encode_chat(CHAT)
    drafted = real.generate([ids], params)[0].choices[0]
    plain = real.generate([ids], replace(params, speculate=False))[0].choices[0]
    assert drafted.token_ids == plain.token_ids
    assert drafted.finish_reason is FinishReason.STOP
    person = json.loads(drafted.text)
    assert list(person) == ["name", "age", "city"]
    assert isinstance(person["age"], int)
    assert 0 <= person["age"] <= 120
    assert person["city"] in ("Paris", "Lyon")


@needs_native
def test_the_native_core_and_torch_choose_alike_under_a_grammar(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", "llama", 1)
    params = SamplingParams(temperature=0.8, seed=3, grammar=Grammar.regex("[a-f]{6,9}"))
    answers = []
    for runner in ("native", "torch"):
        with LLM(str(folder), dtype="fp32", runner=runner, threads=1, kv_tokens=256) as llm:
            answers.append(llm.generate("one two", params)[0].choices[0])
    assert re.fullmatch("[a-f]{6,9}", answers[0].text)
    assert answers[0].text == answers[1].text
