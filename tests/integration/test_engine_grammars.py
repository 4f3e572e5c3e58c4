"""Requests with grammars through the whole engine: the same tokens with any drafts, and answers that parse."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import RequestRefused
from paradraft.core.grammar import Grammar
from paradraft.core.ports import Drafter
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guard import GuardedDrafter
from paradraft.engine.engine import Engine
from support.byte_tokenizer import EOS
from support.engines import build_engine, ids_of, request, run, text_of
from support.fake_drafters import FakeDrafter, LyingDrafter, OracleDrafter, RandomTreeDrafter, WrongDrafter
from support.grammars import BYTES, FunctionGrammars, byte_grammars
from support.stub_target import hashed_law

PROMPT = [3, 1, 4, 1, 5]
HASHED = hashed_law(BYTES, spread=1.5)
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["x", "yy", "yyz"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 999},
        "name": {"type": "string", "maxLength": 4},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["kind", "size", "name"],
    "additionalProperties": False,
}
DATE = r"\d{4}-[01]\d( (noon|night)){0,3}"


def law(prefix: tuple[int, ...]) -> FloatArray:
    """Random tastes, but little taste for blanks, so that answers end."""
    logits = HASHED(prefix[-6:])
    logits[[9, 10, 13, 32]] -= 4.0
    return logits


def is_date(text: str) -> bool:
    return re.fullmatch(DATE, text) is not None


def is_record(text: str) -> bool:
    value = json.loads(text)
    return (
        list(value)[:3] == ["kind", "size", "name"]
        and set(value) <= set(SCHEMA["properties"])
        and value["kind"] in ("x", "yy", "yyz")
        and type(value["size"]) is int
        and 0 <= value["size"] <= 999
        and isinstance(value["name"], str)
        and len(value["name"]) <= 4
        and all(isinstance(tag, bool) for tag in value.get("tags", []))
        and len(value.get("tags", [])) <= 2
    )


def is_sum(text: str) -> bool:
    return re.fullmatch(r"\d(\+\d)*", text) is not None


CHECKS = {
    "schema": (Grammar.json_schema(SCHEMA), is_record),
    "regex": (Grammar.regex(DATE), is_date),
    "lark": (Grammar.of_text('start: start "+" NUMBER | NUMBER\nNUMBER: /[0-9]/'), is_sum),
    "gbnf": (Grammar.of_text('root ::= [0-9] ("+" [0-9])*'), is_sum),
    "choice": (Grammar.choice(["north", "south", "southwest"]), ["north", "south", "southwest"].__contains__),
}


class MaskedOracle(OracleDrafter):
    """Knows law and grammar: at temperature 0 its drafts always stand, the end among them, and it drafts on behind."""

    def __init__(self, grammar: Grammar, prompt_len: int) -> None:
        super().__init__(law)
        self._matcher = byte_grammars().matcher(0, grammar)
        self._prompt_len = prompt_len

    def path(self, known: list[int], depth: int) -> list[int]:
        known = list(known)
        for _ in range(depth):
            output = np.array(known[self._prompt_len :], dtype=np.int32)
            known.append(int(np.where(self._matcher.allowed(output), law(tuple(known)), -np.inf).argmax()))
        return known[len(known) - depth :] if depth else []


def engine_with(drafter: Drafter | None = None, **options: object) -> Engine:
    settings = {"gamma": 6, "nodes": 12, "longest": 512, "num_pages": 512, **options}
    grammars = byte_grammars()
    return build_engine(drafter, law=law, vocab_size=BYTES, eos_ids=(EOS,), grammars=grammars, **settings)


def drafters(grammar: Grammar) -> dict[str, Drafter]:
    return {
        "oracle": MaskedOracle(grammar, len(PROMPT)),
        "blind oracle": OracleDrafter(law),
        "always wrong": WrongDrafter(law, BYTES),
        "trees": RandomTreeDrafter(BYTES, seed=4, law=law),
        "one forbidden token": LyingDrafter(200),
    }


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_any_drafter_gives_the_tokens_of_plain_decoding_and_what_stops_parses(name: str, temperature: float) -> None:
    grammar, is_good = CHECKS[name]
    params = SamplingParams(temperature=temperature, max_tokens=200, grammar=grammar, n=2)
    asked = [request(str(seed), PROMPT, params, seed=seed) for seed in range(3)]
    plain = run(engine_with(), *asked)
    num_stopped = 0
    for events in plain.values():
        if events[-1].finish_reason is FinishReason.STOP:
            assert is_good(text_of(events))
            assert ids_of(events)[-1] == EOS
            num_stopped += 1
    assert num_stopped >= 3
    for drafter in drafters(grammar).values():
        found = run(engine_with(drafter), *asked)
        assert {key: ids_of(events) for key, events in found.items()} == {
            key: ids_of(events) for key, events in plain.items()
        }
        assert [events[-1].finish_reason for events in found.values()] == [
            events[-1].finish_reason for events in plain.values()
        ]


@pytest.mark.parametrize("gamma", range(1, 9))
def test_an_answer_completed_in_the_middle_of_a_burst_ends_there(gamma: int) -> None:
    grammar = Grammar.regex("a{5}")
    engine = engine_with(MaskedOracle(grammar, len(PROMPT)), gamma=gamma, nodes=gamma)
    events = run(engine, request("a", PROMPT, SamplingParams(temperature=0.0, grammar=grammar)))["a", 0]
    assert text_of(events) == "aaaaa"
    assert ids_of(events) == [97] * 5 + [EOS]
    assert events[-1].finish_reason is FinishReason.STOP
    assert events[-1].stats is not None
    assert events[-1].stats.passes == 1 + -(-5 // (gamma + 1))


def test_an_answer_without_room_for_its_end_says_length() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=5, grammar=Grammar.regex("a{5}"))
    events = run(engine_with(), request("a", PROMPT, params))["a", 0]
    assert (text_of(events), events[-1].finish_reason) == ("aaaaa", FinishReason.LENGTH)


def test_min_tokens_forbids_the_end_while_the_grammar_has_more_to_say() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=40, min_tokens=9, grammar=Grammar.regex("ab{2,7}"))
    events = run(engine_with(), request("a", PROMPT, params))["a", 0]
    assert (text_of(events), events[-1].finish_reason) == ("abbbbbbb", FinishReason.STOP)


def test_preempted_rows_go_on_where_they_were() -> None:
    params = SamplingParams(temperature=0.8, max_tokens=90, grammar=CHECKS["schema"][0])
    asked = [request(str(seed), [*PROMPT, seed], params, seed=seed) for seed in range(5)]
    alone = {each.request_id: ids_of(run(engine_with(), each)[each.request_id, 0]) for each in asked}
    engine = engine_with(RandomTreeDrafter(BYTES, seed=2, law=law), num_pages=50, longest=120)
    together = run(engine, *asked)
    assert {key: ids_of(events) for (key, _), events in together.items()} == alone
    stats = [events[-1].stats for events in together.values()]
    assert sum(each.preemptions for each in stats if each is not None) > 0


def test_neighbours_and_successors_in_a_row_never_meet_anothers_grammar() -> None:
    kinds = [CHECKS[name][0] for name in ("regex", "lark", "choice")]
    params = [SamplingParams(temperature=0.8, max_tokens=30, grammar=kind) for kind in (*kinds, None, *kinds[::-1])]
    asked = [request(str(at), PROMPT, each, seed=at) for at, each in enumerate(params)]
    alone = [ids_of(run(engine_with(), each)[each.request_id, 0]) for each in asked]
    engine = engine_with(RandomTreeDrafter(BYTES, seed=3, law=law), max_rows=2)
    together = run(engine, *asked)
    assert [ids_of(together[each.request_id, 0]) for each in asked] == alone
    assert len(engine._grammars) == 0  # type: ignore[arg-type]


def test_a_drafter_that_insists_on_a_forbidden_token_costs_nothing_but_its_drafts() -> None:
    grammar, is_good = CHECKS["schema"]
    engine = engine_with(LyingDrafter(200))
    events = run(engine, request("a", PROMPT, SamplingParams(temperature=0.8, max_tokens=200, grammar=grammar)))["a", 0]
    assert events[-1].finish_reason is FinishReason.STOP
    assert is_good(text_of(events))


def test_forbidden_drafts_are_left_out_of_the_pass_and_counted() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=50, grammar=CHECKS["regex"][0])
    engine = engine_with(WrongDrafter(law, BYTES), gamma=4, nodes=4)
    stats = run(engine, request("a", PROMPT, params))["a", 0][-1].stats
    assert stats is not None
    assert engine.pruned is not None
    assert engine.pruned.num_pruned > 20
    assert stats.drafted < engine.pruned.num_pruned / 4
    free = engine_with(WrongDrafter(law, BYTES), gamma=4, nodes=4)
    run(free, request("a", PROMPT, replace(params, grammar=None)))
    assert free.pruned is not None
    assert free.pruned.num_pruned == 0


@pytest.mark.parametrize("token", [-1, BYTES, 2**31 - 1])
def test_a_draft_outside_the_vocabulary_never_reaches_the_grammar(token: int) -> None:
    grammar, is_good = CHECKS["schema"]
    engine = engine_with(GuardedDrafter(_Always(token), vocab_size=BYTES))
    events = run(engine, request("a", PROMPT, SamplingParams(temperature=0.8, max_tokens=200, grammar=grammar)))["a", 0]
    assert is_good(text_of(events))


class _Always(FakeDrafter):
    def __init__(self, token: int) -> None:
        super().__init__()
        self._token = token

    def path(self, known: list[int], depth: int) -> list[int]:
        return [self._token] * depth


def test_grammars_work_beside_every_other_parameter() -> None:
    grammar, is_good = CHECKS["schema"]
    params = SamplingParams(
        temperature=0.9,
        top_p=0.9,
        min_p=0.001,
        top_k=50,
        repetition_penalty=1.1,
        frequency_penalty=0.3,
        logit_bias={120: 2.0},
        logprobs=3,
        prompt_logprobs=1,
        max_tokens=200,
        grammar=grammar,
    )
    plain = run(engine_with(), request("a", PROMPT, params))["a", 0]
    drafted = run(engine_with(RandomTreeDrafter(BYTES, law=law)), request("a", PROMPT, params))["a", 0]
    assert ids_of(drafted) == ids_of(plain)
    assert is_good(text_of(plain))
    chosen = [each.chosen.logprob for event in plain for each in event.logprobs]
    assert len(chosen) == len(ids_of(plain))
    assert np.isfinite(chosen).all()


def test_a_matcher_that_fails_in_the_middle_fails_its_own_request_alone() -> None:
    def follow(output: tuple[int, ...]) -> list[int]:
        if len(output) == 4:
            raise RequestRefused("No more.", remedy="None.")
        return [65, 66]

    grammars = FunctionGrammars(follow, BYTES)
    engine = build_engine(law=law, vocab_size=BYTES, eos_ids=(EOS,), grammars=grammars)
    held = SamplingParams(temperature=0.0, max_tokens=9, grammar=Grammar.regex("any"))
    events = run(engine, request("bad", PROMPT, held), request("good", PROMPT, replace(held, grammar=None)))
    assert events["bad", 0][-1].finish_reason is FinishReason.ERROR
    assert "No more" in (events["bad", 0][-1].error or "")
    assert events["good", 0][-1].finish_reason is FinishReason.LENGTH
    assert engine.pages.counts().held == 0


def test_an_engine_without_grammars_refuses_them() -> None:
    with pytest.raises(RequestRefused, match="enforces no grammars"):
        build_engine().add(request("a", PROMPT, SamplingParams(grammar=Grammar.json_object())))


def test_a_bad_grammar_is_refused_before_it_is_queued_and_the_others_go_on() -> None:
    engine = engine_with()
    good = request("good", PROMPT, SamplingParams(temperature=0.0, max_tokens=20, grammar=CHECKS["regex"][0]))
    engine.add(good)
    engine.step()
    with pytest.raises(RequestRefused, match="unclosed group"):
        engine.add(request("bad", PROMPT, SamplingParams(grammar=Grammar.regex("("))))
    assert engine.num_choices("bad") == 0
    assert ids_of(run(engine)["good", 0])
