"""Sampling parameters, stops and limits hold under speculation exactly as without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import RequestRefused
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine
from support.engines import GREEDY, LAW, VOCAB, answer, build_engine, ids_of, request, run, text_of
from support.fake_drafters import HalfRightDrafter, OracleDrafter, RandomTreeDrafter
from support.stub_target import continue_plainly

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def engines() -> list[Engine]:
    return [
        build_engine(),
        build_engine(OracleDrafter(LAW), gamma=8, nodes=8),
        build_engine(RandomTreeDrafter(VOCAB, seed=5, law=LAW), gamma=5, nodes=12),
    ]


def answers(params: SamplingParams, *, seed: int = 3) -> list[list[int]]:
    return [answer(engine, PROMPT, params, seed=seed) for engine in engines()]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, top_k=5, max_tokens=20),
        SamplingParams(temperature=1.0, top_p=0.7, max_tokens=20),
        SamplingParams(temperature=1.0, min_p=0.2, max_tokens=20),
        SamplingParams(temperature=0.0, repetition_penalty=1.8, max_tokens=30),
        SamplingParams(temperature=0.0, frequency_penalty=2.0, presence_penalty=1.0, max_tokens=30),
        SamplingParams(temperature=0.9, frequency_penalty=-2.0, max_tokens=30),
        SamplingParams(temperature=0.0, logit_bias={7: 100.0}, max_tokens=5),
        SamplingParams(temperature=1.3, logit_bias={7: -100.0, 9: 3.5}, top_k=20, top_p=0.9, max_tokens=20),
    ],
    ids=str,
)
def test_every_parameter_gives_the_same_tokens_with_and_without_drafts(params: SamplingParams) -> None:
    plain, oracle, tree = answers(params)
    assert oracle == plain
    assert tree == plain


def test_parameters_do_change_the_answer() -> None:
    base = answers(replace(GREEDY, max_tokens=30))[0]
    assert answers(replace(GREEDY, max_tokens=30, frequency_penalty=2.0, repetition_penalty=1.8))[1] != base
    assert answers(replace(GREEDY, max_tokens=5, logit_bias={7: 100.0}))[1] == [7] * 5


@pytest.mark.parametrize("limit", range(1, 14))
def test_max_tokens_holds_inside_a_burst(limit: int) -> None:
    for engine in engines():
        events = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=limit)))["a", 0]
        assert ids_of(events) == continue_plainly(LAW, PROMPT, limit)
        assert events[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("at", range(9))
def test_an_end_of_sequence_inside_a_burst_ends_the_text_there(at: int) -> None:
    plain = continue_plainly(LAW, PROMPT, 24)
    eos = plain[at]
    first = plain.index(eos)
    for drafter in (None, OracleDrafter(LAW)):
        engine = build_engine(drafter, gamma=8, nodes=8, eos_ids=(eos,))
        events = run(engine, request("a", PROMPT))["a", 0]
        assert ids_of(events) == plain[: first + 1]
        assert events[-1].finish_reason is FinishReason.STOP
        assert events[-1].stop_reason is None
        assert engine.pages.counts().held == 0


def test_ignore_eos_goes_on() -> None:
    plain = continue_plainly(LAW, PROMPT, 24)
    engine = build_engine(OracleDrafter(LAW), eos_ids=(plain[2],))
    assert answer(engine, PROMPT, replace(GREEDY, ignore_eos=True)) == plain


@pytest.mark.parametrize("at", [0, 1, 4, 7])
def test_a_stop_id_ends_the_text_and_is_named(at: int) -> None:
    plain = continue_plainly(LAW, PROMPT, 24)
    stop = plain[at]
    for engine in engines():
        events = run(engine, request("a", PROMPT, replace(GREEDY, stop_token_ids=(stop,))))["a", 0]
        assert ids_of(events) == plain[: plain.index(stop) + 1]
        assert events[-1].stop_reason == stop


def lettered(prefix: tuple[int, ...]) -> FloatArray:
    """Greedy decoding spells the alphabet, over and over."""
    logits = np.zeros(128, dtype=np.float32)
    logits[ord("a") + (prefix[-1] - ord("a") + 1) % 26] = 5.0
    return logits


@pytest.mark.parametrize("gamma", [0, 1, 3, 8, 15])
@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("d", "bc"),
        ("cd", "b"),
        ("fgh", "bcde"),
        ("b", ""),
        ("mnopqrst", "bcdefghijkl"),
        ("za", "bcdefghijklmnopqrstuvwxy"),
    ],
)
def test_a_stop_text_ends_the_text_wherever_it_completes_in_a_burst(gamma: int, stop: str, text: str) -> None:
    engine = build_engine(OracleDrafter(lettered), law=lettered, vocab_size=128, gamma=gamma, nodes=gamma)
    params = SamplingParams(temperature=0.0, max_tokens=60, stop=(stop,))
    events = run(engine, request("a", [ord("a")], params))["a", 0]
    assert text_of(events) == text
    assert events[-1].stop_reason == stop
    assert "".join(chr(token) for token in ids_of(events)) == text + stop


def test_min_tokens_keeps_stops_away_until_then() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=60, stop=("cd",), min_tokens=20)
    engine = build_engine(OracleDrafter(lettered), law=lettered, vocab_size=128, gamma=5, nodes=5)
    assert text_of(run(engine, request("a", [ord("a")], params))["a", 0]) == "bcdefghijklmnopqrstuvwxyzab"
    plain = continue_plainly(LAW, PROMPT, 24)
    for drafter in (None, OracleDrafter(LAW)):
        engine = build_engine(drafter, gamma=5, nodes=5, eos_ids=(plain[3],))
        ids = answer(engine, PROMPT, replace(GREEDY, min_tokens=6, max_tokens=12))
        assert len(ids) >= 6
        assert plain[3] not in ids[:6]


def test_logprobs_are_the_raw_targets_with_and_without_drafts() -> None:
    params = SamplingParams(temperature=0.7, top_k=3, frequency_penalty=1.0, max_tokens=15, logprobs=4)
    per_engine = []
    for engine in engines():
        events = run(engine, request("a", PROMPT, params))["a", 0]
        per_engine.append([entry for event in events for entry in event.logprobs])
    plain, oracle, tree = per_engine
    assert plain == oracle == tree
    assert len(plain) == 15
    known = list(PROMPT)
    for entry in plain:
        logits = LAW(tuple(known)).astype(np.float64)
        expected = logits - np.log(np.exp(logits).sum())
        assert entry.chosen.logprob == pytest.approx(expected[entry.chosen.token], abs=1e-5)
        assert [best.token for best in entry.top] == np.argsort(-expected, kind="stable")[:4].tolist()
        assert entry.chosen.rank == 1 + int((expected > expected[entry.chosen.token]).sum())
        known.append(entry.chosen.token)


@pytest.mark.parametrize("chunk", [4, 7, 64])
def test_prompt_logprobs_do_not_depend_on_chunks_cache_or_drafts(chunk: int) -> None:
    params = replace(GREEDY, max_tokens=3, prompt_logprobs=2)
    engine = build_engine(OracleDrafter(LAW), max_step_tokens=chunk)
    run(engine, request("warm the cache", PROMPT))
    events = run(engine, request("a", PROMPT, params))["a", 0]
    found = events[0].prompt_logprobs
    assert found is not None
    assert found[0] is None
    assert len(found) == len(PROMPT)
    for at, entry in enumerate(found[1:], start=1):
        logits = LAW(tuple(PROMPT[:at])).astype(np.float64)
        expected = logits - np.log(np.exp(logits).sum())
        assert entry is not None
        assert entry.chosen.token == PROMPT[at]
        assert entry.chosen.logprob == pytest.approx(expected[PROMPT[at]], abs=1e-5)
    assert ids_of(events) == continue_plainly(LAW, PROMPT, 3)


def test_choices_of_one_request_differ_and_each_equals_its_plain_twin() -> None:
    params = SamplingParams(temperature=1.0, n=3, max_tokens=12)
    plain = run(build_engine(), request("a", PROMPT, params))
    neighbour = request("b", [1, 2, 3])
    drafted = run(
        build_engine(RandomTreeDrafter(VOCAB, seed=1, law=LAW), nodes=8), request("a", PROMPT, params), neighbour
    )
    texts = [ids_of(plain["a", choice]) for choice in range(3)]
    assert [ids_of(drafted["a", choice]) for choice in range(3)] == texts
    assert len({tuple(text) for text in texts}) == 3
    later = drafted["a", 2][-1].stats
    assert later is not None
    assert later.cached_prompt_tokens == 8
    neighbours = drafted["b", 0][-1].stats
    assert neighbours is not None
    assert neighbours.drafted > 0


def test_speculation_can_be_turned_off_and_gamma_set_for_one_request() -> None:
    engine = build_engine(OracleDrafter(LAW), gamma=4, nodes=4)
    long = replace(GREEDY, max_tokens=60)
    events = run(
        engine,
        request("off", PROMPT, replace(long, speculate=False)),
        request("zero", PROMPT, replace(long, gamma=0)),
        request("two", PROMPT, replace(long, gamma=2)),
        request("seven", PROMPT, replace(long, gamma=7)),
    )
    tau = {name: events[name, 0][-1].stats for name in ("off", "zero", "two", "seven")}
    assert [stats.tau for stats in tau.values() if stats is not None] == [1.0, 1.0, 3.0, 8.0]


def test_counts_add_up() -> None:
    engine = build_engine(HalfRightDrafter(LAW, VOCAB), gamma=4, nodes=4)
    events = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=50)))["a", 0]
    stats = events[-1].stats
    assert stats is not None
    origins = [origin for event in events for origin in event.origins]
    assert len(origins) == 50
    assert stats.accepted - stats.dropped == sum(origin.name == "DRAFTED" for origin in origins)
    assert stats.accepted == sum(stats.accepted_by_depth) == sum(stats.accepted_by_source)
    assert stats.drafted == sum(stats.drafted_by_depth) == sum(stats.drafted_by_source)
    assert stats.passes == sum(1 for event in events if event.token_ids)
    assert engine.totals.committed == 50


@pytest.mark.parametrize(
    ("prompt", "params", "words"),
    [
        ([], GREEDY, "no tokens"),
        ([1, 64], GREEDY, "64"),
        ([1, -1], GREEDY, "-1"),
        ([1] * 512, GREEDY, "512"),
        ([1], replace(GREEDY, stop_token_ids=(99,)), "stop_token_ids"),
        ([1], replace(GREEDY, logit_bias={99: 1.0}), "logit_bias"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_with_the_reason(
    prompt: list[int], params: SamplingParams, words: str
) -> None:
    engine = build_engine()
    with pytest.raises(RequestRefused, match=words):
        engine.add(request("a", prompt, params))
    assert not engine.has_work
    assert answer(engine, PROMPT) == continue_plainly(LAW, PROMPT, 24)
