"""Grammars from the command line."""

from __future__ import annotations

import json

import pytest

from paradraft.core.grammar import Grammar

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}


def test_each_option_reaches_the_request(run, opened, tmp_path):
    schema, lark = tmp_path / "person.json", tmp_path / "sum.lark"
    schema.write_text(json.dumps(SCHEMA))
    lark.write_text('start: "a"')
    for options in (["--json-schema", str(schema)], ["--regex", r"\d+"], ["--grammar", str(lark)], []):
        assert run("generate", "Hi", *options).exit_code == 0
    grammars = [llm.asked[0][1][0].grammar for llm in opened]
    assert grammars == [Grammar.json_schema(SCHEMA), Grammar.regex(r"\d+"), Grammar.of_text('start: "a"'), None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--regex", "a", "--json-schema", "x.json"], "--json-schema and --regex are given"),
        (["--grammar", "absent.lark"], "--grammar absent.lark cannot be read"),
        (["--json-schema", "."], "--json-schema . cannot be read"),
        (["--regex", ""], "Say what the answer looks like"),
    ],
)
def test_what_cannot_be_used_is_one_line(run, opened, options, words):
    result = run("generate", "Hi", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert opened == []


def test_a_file_that_is_no_schema_is_named(run, opened, tmp_path):
    file = tmp_path / "person.json"
    file.write_text("{'type': 'object'}")
    result = run("generate", "Hi", "--json-schema", str(file))
    assert result.exit_code == 2
    assert "is not JSON" in result.stderr
    file.write_bytes(b"\xff\xfe{}")
    assert "cannot be read" in run("generate", "Hi", "--json-schema", str(file)).stderr


def test_the_help_shows_examples(run):
    shown = run("generate", "--help").stdout
    assert "--regex" in shown
    assert "--json-schema person.json" in shown
