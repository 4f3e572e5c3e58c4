"""What a matcher says depends on the output it is shown, not on what it was asked before."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import BoolArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.core.grammar import Grammar
from paradraft.structured.matcher import RowMatcher
from support.byte_tokenizer import EOS
from support.grammars import BYTES, byte_compiler, byte_grammars, spelled

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["alpha", "alphabet", "beta"]},
        "size": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,5}$"}},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
}
GRAMMARS = {
    "schema": Grammar.json_schema(SCHEMA),
    "object": Grammar.json_object(),
    "regex": Grammar.regex(r"\d{4}-\d\d (hello|help)+ world"),
    "lark": Grammar.of_text('%ignore / {1,3}/\nstart: ("if" "(" e ")" | "x=" e ";")+\ne: /[a-z]+/ | e "+" e'),
    "gbnf": Grammar.of_text('root ::= ("yes" | "yesterday") root | "no"'),
}


def fresh(grammar: Grammar, output: list[int]) -> BoolArray:
    return byte_grammars().matcher(0, grammar).allowed(ints(output))


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("seed", range(3))
def test_a_matcher_that_was_led_astray_says_what_a_fresh_one_says(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matcher = byte_grammars().matcher(0, GRAMMARS[name])
    output: list[int] = []
    for _ in range(60):
        del output[len(output) - int(rng.integers(0, min(len(output), 5) + 1)) :]
        for _ in range(int(rng.integers(1, 6))):
            options = [token for token in np.flatnonzero(matcher.allowed(ints(output))) if token != EOS]
            if not options:
                break
            output.append(int(rng.choice(options)))
        matcher.count_allowed(ints(output), rng.integers(0, BYTES, 5).tolist())
        assert (matcher.allowed(ints(output)) == fresh(GRAMMARS[name], output)).all()


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_path_counts_as_far_as_masks_would_let_it_go(name: str) -> None:
    rng = np.random.default_rng(1)
    matcher = byte_grammars().matcher(0, GRAMMARS[name])
    output: list[int] = []
    for _ in range(25):
        path: list[int] = []
        while len(path) < 6 and EOS not in path:
            allowed = fresh(GRAMMARS[name], [*output, *path])
            wrong = int(rng.integers(BYTES))
            if rng.random() < 0.1 and not allowed[wrong]:
                break
            path.append(int(rng.choice(np.flatnonzero(allowed))))
        rest = [wrong, 0] if len(path) < 6 and EOS not in path else [0] if EOS in path else []
        assert matcher.count_allowed(ints(output), [*path, *rest]) == len(path)
        output += [token for token in path if token != EOS][:3]


def test_behind_a_complete_answer_only_the_end_may_follow_and_it_stays_so() -> None:
    matcher = byte_grammars().matcher(0, Grammar.regex("ab"))
    for output in (spelled("ab"), spelled("ab", ends=True), [*spelled("ab", ends=True), EOS, 65]):
        assert np.flatnonzero(matcher.allowed(ints(output))).tolist() == [EOS]
    assert ord("b") in np.flatnonzero(matcher.allowed(ints(spelled("a"))))


def test_where_an_answer_may_end_it_may_also_go_on() -> None:
    allowed = byte_grammars().matcher(0, Grammar.regex("ab*")).allowed(ints(spelled("ab")))
    assert np.flatnonzero(allowed).tolist() == [ord("b"), EOS]


def test_blanks_between_parts_of_json_come_to_an_end() -> None:
    matcher = byte_grammars().matcher(0, Grammar.json_object())
    assert matcher.count_allowed(ints([]), spelled("{" + " " * 100)) == 33


def test_an_output_outside_the_grammar_fails_and_the_next_question_is_answered() -> None:
    matcher = byte_grammars().matcher(0, Grammar.regex("abc"))
    with pytest.raises(ProtocolError, match="cannot be followed further"):
        matcher.allowed(ints(spelled("ax")))
    assert np.flatnonzero(matcher.allowed(ints(spelled("ab")))).tolist() == [ord("c")]


def test_a_library_that_gives_up_costs_no_draft() -> None:
    def broken() -> object:
        matcher = byte_compiler().open(Grammar.regex("abc"))
        matcher.consume_token(0)
        assert matcher.is_error()
        return matcher

    matcher = RowMatcher(broken, eos_ids=frozenset([EOS]), vocab_size=BYTES)  # type: ignore[arg-type]
    assert matcher.count_allowed(ints([]), [1, 2, 3]) == 3
    with pytest.raises(ProtocolError):
        matcher.allowed(ints([]))


def test_a_row_with_another_grammar_begins_anew() -> None:
    grammars = byte_grammars()
    old = grammars.matcher(4, Grammar.regex("ab"))
    old.allowed(ints(spelled("a")))
    new = grammars.matcher(4, Grammar.regex("xy"))
    assert np.flatnonzero(new.allowed(ints([]))).tolist() == [ord("x")]
    assert grammars.matcher(4, Grammar.regex("xy")) is new
    grammars.forget(ints([4, 9]))
    assert len(grammars) == 0
