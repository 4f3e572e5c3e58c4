"""Which grammars are taken, which are refused and how, and what is kept."""

from __future__ import annotations

import io
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import RequestRefused
from paradraft.core.grammar import Grammar
from paradraft.structured import trial
from paradraft.structured.compiler import GrammarCompiler
from paradraft.structured.refusals import KEPT_SECONDS
from paradraft.structured.rows import RowGrammars
from paradraft.structured.trial import is_affordable
from support.byte_tokenizer import EOS, ByteTokenizer
from support.grammars import BYTES, byte_compiler, byte_grammars
from support.speakers import ManualClock

MANY_PATTERNS = {"allOf": [{"type": "string", "pattern": f"^.*a{at}.*$"} for at in range(40)]}


def compiler(**options: object) -> GrammarCompiler:
    return GrammarCompiler(ByteTokenizer(BYTES), vocab_size=BYTES, **{"is_affordable": lambda _: True, **options})


def first_bytes(grammar: Grammar) -> set[str]:
    return {chr(token) for token in np.flatnonzero(byte_grammars().matcher(0, grammar).allowed(ints([])))}


@pytest.mark.parametrize(
    ("grammar", "first"),
    [
        (Grammar.json_object(), "{"),
        (Grammar.json_schema({"type": "integer", "minimum": 3, "maximum": 5}), "345"),
        (Grammar.json_schema({"enum": ["x", "y"]}), '"'),
        (Grammar.regex("a/b|/c"), "a/"),
        (Grammar.regex("^(d|e)$"), "de"),
        (Grammar.of_text('start: "f" | "g"'), "fg"),
        (Grammar.of_text('root ::= "h" | [ij]'), "hij"),
        (Grammar.of_text('%llguidance {"no_forcing": false}\nstart: "k"'), "k"),
        (Grammar.of_text('start: "<m> temperature=1" | /n<i>max_tokens=3/'), "<n"),
        (Grammar.choice(["<o>", "/p", '"q']), '</"'),
    ],
    ids=str,
)
def test_every_kind_is_taken(grammar: Grammar, first: str) -> None:
    assert first_bytes(grammar) == set(first)


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        (Grammar.json_schema({"not": {"type": "string"}}), r'JSON schema .* \["not"\]'),
        (Grammar.json_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (Grammar.json_schema({"if": {}, "then": {"minLength": 1}}), '"if"'),
        (Grammar.json_schema({"type": "string", "format": "nosuch"}), "Unknown format: nosuch"),
        (Grammar.json_schema({"type": "strin"}), "Invalid type: strin"),
        (Grammar.json_schema({"$ref": "#/$defs/gone"}), r"'/\$defs/gone' does not exist"),
        (Grammar.json_schema({"$ref": "https://example.com/a.json"}), "does not fetch"),
        (Grammar.json_schema({"type": "integer", "minimum": 5, "maximum": 3}), "Unsatisfiable"),
        (Grammar.json_schema({"x-guidance": {"lenient": True}, "not": {}}), "x-guidance"),
        (Grammar.json_schema({"$ref": "#"}), "matches no text"),
        (Grammar.json_schema({"allOf": [{"$ref": "#"}], "type": "object"}), "circular"),
        (Grammar.regex("("), "unclosed group"),
        (Grammar.regex("(?=a)b"), "look-around"),
        (Grammar.regex(r"(a)\1"), "backreferences"),
        (Grammar.regex("(" * 20_000 + "a" + ")" * 20_000), "nested parentheses"),
        (Grammar.regex(r"a[^\s\S]b"), "matches no text"),
        (Grammar.regex("x{0}"), "the empty one alone"),
        (Grammar.of_text('a: "b"'), "cannot be read"),
        (Grammar.of_text("start: b"), 'unknown name: "b"'),
        (Grammar.of_text("start: start"), "matches no text"),
        (Grammar.of_text('start: ""'), "the empty one alone"),
        (Grammar.of_text("start: " + "(" * 20_000 + '"a"' + ")" * 20_000), "deeply nested"),
        (Grammar.of_text("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000), "cannot be read"),
        (Grammar.of_text('start: A\nA: "a" A'), "circular"),
        (Grammar.of_text("start: a0\n" + "\n".join(f"a{i}: a{i + 1} a{i + 1}" for i in range(9))), "a9"),
        (Grammar.of_text("start: x\nx[temperature=0.5]: /.*/"), "temperature="),
        (Grammar.of_text('start: "a" <257>'), "<257>"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_enforced_is_refused_by_name(grammar: Grammar, words: str) -> None:
    with pytest.raises(RequestRefused, match=words) as caught:
        byte_compiler().open(grammar)
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_a_schema_that_calls_itself_is_served_where_an_answer_can_end() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    matcher = byte_grammars().matcher(0, Grammar.json_schema(tree))
    text = b'{"child":{"child":{}}}'
    assert matcher.count_allowed(ints([]), [*text, EOS]) == len(text) + 1


def test_a_model_without_end_of_sequence_takes_no_grammar() -> None:
    endless = GrammarCompiler(ByteTokenizer(BYTES, eos_ids=()), vocab_size=BYTES, is_affordable=lambda _: True)
    with pytest.raises(RequestRefused, match="no end-of-sequence token"):
        endless.open(Grammar.json_object())


def test_ids_that_stand_for_nothing_are_never_allowed() -> None:
    wide = GrammarCompiler(ByteTokenizer(BYTES), vocab_size=BYTES + 13, is_affordable=lambda _: True)
    bits = np.unpackbits(
        np.frombuffer(wide.open(Grammar.regex(".*")).compute_bitmask(), dtype=np.uint8), bitorder="little"
    )
    assert bits[: BYTES + 13].sum() > 100
    assert not bits[BYTES:].any()


def test_a_grammar_is_compiled_once_and_the_oldest_leaves() -> None:
    tried: list[str] = []
    small = compiler(capacity=2, is_affordable=lambda lark: tried.append(lark) is None)
    for name in ("a", "b", "a", "c", "a", "b"):
        small.open(Grammar.regex(name))
    assert [lark[8] for lark in tried] == ["a", "b", "c", "b"]
    assert len(small) == 2


def test_a_row_that_comes_late_compiles_again_without_another_trial() -> None:
    tried: list[str] = []
    small = compiler(capacity=1, is_affordable=lambda lark: tried.append(lark) is None)
    rows = RowGrammars(small)
    for name in ("a", "b"):
        rows.compile(Grammar.regex(name))
    assert rows.matcher(0, Grammar.regex("a")).allowed(ints([]))[ord("a")]
    assert len(tried) == 2


def test_matchers_of_one_grammar_do_not_share_their_place() -> None:
    one, other = byte_compiler().open(Grammar.regex("abc")), byte_compiler().open(Grammar.regex("abc"))
    one.consume_tokens(list(b"ab"))
    assert other.validate_tokens(list(b"abc")) == 3


def test_threads_compile_beside_each_other() -> None:
    shared = compiler(capacity=8)
    grammars = [Grammar.regex(f"[a-z]+{at}") for at in range(12)]
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(shared.open, grammars * 2))
    assert not any(matcher.is_error() for matcher in opened)
    assert len(shared) == 8


def test_other_threads_go_on_while_a_grammar_compiles() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(lark: str) -> bool:
        begun.set()
        return ended.wait(10)

    busy = compiler(is_affordable=slow)
    thread = threading.Thread(target=busy.open, args=(Grammar.regex("slow"),))
    thread.start()
    assert begun.wait(10)
    busy._is_affordable = lambda _: True
    busy.open(Grammar.regex("quick"))
    assert thread.is_alive()
    ended.set()
    thread.join(10)
    assert len(busy) == 2


def test_a_grammar_that_would_compile_for_hours_is_given_up() -> None:
    patient = compiler(is_affordable=lambda lark: is_affordable(lark, seconds=1))
    with pytest.raises(RequestRefused, match="takes more than"):
        patient.open(Grammar.json_schema(MANY_PATTERNS))
    assert len(patient) == 0


def test_a_refused_grammar_is_tried_once_and_refused_in_the_same_words_again() -> None:
    tried: list[str] = []
    clock = ManualClock()
    wary = compiler(capacity=2, is_affordable=lambda lark: tried.append(lark) is not None, clock=clock)

    def words(name: str) -> str:
        with pytest.raises(RequestRefused) as caught:
            wary.open(Grammar.regex(name))
        return str(caught.value)

    assert words("a") == words("a") == words("a")
    assert [lark[8] for lark in tried] == ["a"]
    for name in ("b", "a", "c", "a", "b"):
        words(name)
    assert [lark[8] for lark in tried] == ["a", "b", "c", "b"]
    clock.now += KEPT_SECONDS
    words("b")
    assert len(tried) == 5


def test_other_reasons_of_refusals_are_kept_too() -> None:
    tried: list[str] = []
    wary = compiler(is_affordable=lambda lark: tried.append(lark) is None)
    for _ in range(3):
        with pytest.raises(RequestRefused, match="unknown name"):
            wary.open(Grammar.of_text("start: b"))
    assert len(tried) == 1


def test_threads_that_send_one_grammar_wait_for_one_trial() -> None:
    tried: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def refused(lark: str) -> bool:
        tried.append(lark)
        begun.set()
        return not may_end.wait(10)

    wary = compiler(is_affordable=refused)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(wary.open, Grammar.regex("a")) for _ in range(6)]
        assert begun.wait(10)
        assert not any(each.done() for each in asked)
        may_end.set()
        assert all(isinstance(each.exception(10), RequestRefused) for each in asked)
    assert len(tried) == 1


def test_a_row_goes_on_with_a_grammar_that_was_refused_since_it_left() -> None:
    taken = True
    small = compiler(capacity=1, is_affordable=lambda _: taken)
    rows = RowGrammars(small)
    for name in ("a", "b"):
        rows.compile(Grammar.regex(name))
    taken = False
    with pytest.raises(RequestRefused):
        rows.compile(Grammar.regex("a"))
    assert rows.matcher(0, Grammar.regex("a")).allowed(ints([]))[ord("a")]


def test_a_system_that_bounds_no_process_tries_grammars_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)  # importing it fails then, as on Windows
    monkeypatch.setattr(sys, "argv", ["trial", "1"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'start: "a"')))
    trial.main()


def test_a_usual_grammar_is_affordable_and_a_wrong_one_is_left_to_its_error() -> None:
    assert is_affordable('start: %json {"type": "object"}')
    assert is_affordable("start: (")


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "(.*a.{300}|.*b.{300}|.*c.{299})", "(a|a)*" * 50])
def test_repetitions_do_not_stall_the_first_steps(pattern: str) -> None:
    matcher = byte_grammars().matcher(0, Grammar.regex(pattern))
    begun = time.thread_time()
    for length in range(20):
        matcher.allowed(ints([ord("a")] * length))
    assert time.thread_time() - begun < 1.0
