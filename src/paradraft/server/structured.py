"""From the fields that ask for a form to the grammar that enforces it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import Grammar
from paradraft.server.errors import ApiError
from paradraft.server.schema.structured import ResponseFormat, StructuredFields, StructuredOutputs

Asked = tuple[str, Callable[[], Grammar]]  # the field, and what makes its grammar


def grammar_of(body: StructuredFields) -> Grammar | None:
    """Return the grammar that a body asks for, None if it asks for none; raise ApiError naming the field."""
    asked = list(_asked(body))
    if len(asked) > 1:
        names = ", ".join(name for name, _ in asked)
        raise ApiError(
            400,
            f"{asked[1][0]}: an answer has one form, and {names} each ask for one.",
            param=asked[1][0],
            code="invalid_value",
        )
    for name, make in asked:
        try:
            return make()
        except ConfigError as error:
            raise ApiError(400, f"{name}: {error}", param=name, code="invalid_value") from error
    return None


def _asked(body: StructuredFields) -> Iterator[Asked]:
    if body.response_format is not None:
        yield from _of_response_format(body.response_format)
    if body.structured_outputs is not None:
        yield from _of_structured_outputs(body.structured_outputs)
    if (schema := body.guided_json) is not None:
        yield "guided_json", lambda: Grammar.json_schema(schema)
    if (pattern := body.guided_regex) is not None:
        yield "guided_regex", lambda: Grammar.regex(pattern)
    if (options := body.guided_choice) is not None:
        yield "guided_choice", lambda: Grammar.choice(options)
    if (text := body.guided_grammar) is not None:
        yield "guided_grammar", lambda: Grammar.of_text(text)


def _of_response_format(asked: ResponseFormat) -> Iterator[Asked]:
    if asked.type == "json_object":
        yield "response_format", Grammar.json_object
    if asked.json_schema is not None:
        schema = asked.json_schema.schema_
        yield "response_format.json_schema.schema", lambda: Grammar.json_schema(schema)


def _of_structured_outputs(asked: StructuredOutputs) -> Iterator[Asked]:
    if asked.json_object:
        yield "structured_outputs.json_object", Grammar.json_object
    if (schema := asked.json_) is not None:
        yield "structured_outputs.json", lambda: Grammar.json_schema(schema)
    if (pattern := asked.regex) is not None:
        yield "structured_outputs.regex", lambda: Grammar.regex(pattern)
    if (options := asked.choice) is not None:
        yield "structured_outputs.choice", lambda: Grammar.choice(options)
    if (text := asked.grammar) is not None:
        yield "structured_outputs.grammar", lambda: Grammar.of_text(text)
