"""The record of a grammar."""

from __future__ import annotations

import json

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import MAX_GRAMMAR_BYTES, Grammar, GrammarKind
from paradraft.core.sampling import SamplingParams


def test_grammars_are_equal_by_kind_and_text() -> None:
    assert Grammar.regex("a+") == Grammar(kind=GrammarKind.REGEX, text="a+")
    assert len({Grammar.regex("a"), Grammar.of_text("a"), Grammar.regex("a"), Grammar.json_object()}) == 3


def test_a_kind_may_be_given_by_its_name() -> None:
    assert Grammar(kind="regex", text="a") == Grammar.regex("a")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'yaml' is not known"):
        Grammar(kind="yaml", text="a")  # type: ignore[arg-type]


def test_a_schema_keeps_the_order_of_its_properties() -> None:
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    assert list(json.loads(Grammar.json_schema(schema).text)["properties"]) == ["b", "a"]
    assert Grammar.json_schema(json.dumps(schema)) == Grammar.json_schema(schema)


def test_a_choice_is_written_with_its_texts_quoted() -> None:
    assert Grammar.choice(['say "x"', "b"]).text == 'start: "say \\"x\\"" | "b"'


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Grammar.regex(""), "Say what the answer looks like"),
        (lambda: Grammar.of_text(" \n "), "Say what the answer looks like"),
        (lambda: Grammar(kind=GrammarKind.JSON_OBJECT, text="{}"), "Leave the text empty"),
        (lambda: Grammar.regex(7), "Give a str"),
        (lambda: Grammar.regex("x" * (MAX_GRAMMAR_BYTES + 1)), "65537 bytes, and 65536"),
        (lambda: Grammar.regex("a\ud800"), "half a character"),
        (lambda: Grammar.json_schema("{'a': 1}"), "is not JSON"),
        (lambda: Grammar.json_schema("[" * 60_000), "nest it less deeply"),
        (lambda: Grammar.json_schema("false"), "no JSON object"),
        (lambda: Grammar.json_schema({"const": {1, 2}}), "Use plain values"),
        (lambda: Grammar.json_schema({"const": float("nan")}), "Use plain values"),
        (lambda: Grammar.choice([]), "list of texts"),
        (lambda: Grammar.choice("abc"), "list of texts"),
        (lambda: Grammar.choice(["a", ""]), "list of texts"),
        (lambda: SamplingParams(grammar="a+"), "Set grammar to None or a Grammar"),
        (lambda: SamplingParams(grammar=Grammar.regex("a"), ignore_eos=True), "ignore_eos=True is not allowed"),
    ],
)
def test_what_no_engine_could_use_is_refused_at_once(make, words) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
