"""What passes can be given and asked beside tokens and logits: states, both ways, candidates, totals, entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.core.largest import largest
from paradraft.models.stored import widen
from paradraft.native.executor import Executor
from paradraft.native.packing import pack
from paradraft.native.records import ContextEntries, PassInput, SummaryTerms
from paradraft.native.weights import ModelWeights
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS, KINDS, ODD, Row, pass_input, tiny_weights

pytestmark = needs_native
TOKENS = (5, 9, 2, 11, 7)


def executor(weights: ModelWeights, **options) -> Executor:
    return Executor(weights, num_slots=64, **options)


def a_pass(**changes) -> PassInput:
    return replace(pass_input([Row(tokens=TOKENS, slots=range(len(TOKENS)))]), **changes)


def states_of(weights: ModelWeights, tokens=TOKENS) -> np.ndarray:
    if weights.embedding is None:
        return np.stack([weights.head.row(token) for token in tokens])
    rows = weights.embedding[list(tokens)]
    return np.ascontiguousarray(widen(rows) if rows.dtype == np.uint16 else rows, dtype=np.float32)


def with_twins(weights: ModelWeights) -> ModelWeights:
    """Return the model with a head whose second half of rows is its first half again."""
    half = weights.vocab_size // 2
    rows = np.stack([weights.head.row(row) for row in range(half)])
    return replace(weights, head=pack("float32", [np.concatenate([rows, rows])]), embedding=None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_states_stand_for_the_embeddings_of_tokens(family, kind):
    weights = tiny_weights(family, kind, ODD)
    expected = executor(weights).run(a_pass()).logits.copy()
    found = executor(weights).run(a_pass(tokens=ints([]), states=states_of(weights))).logits
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_candidates_are_the_largest_logits_the_lowest_id_first_between_equals(instruction_set, count):
    weights = with_twins(tiny_weights("llama", "float32", {"vocab_size": 1006, "tie_word_embeddings": False}))
    terms = SummaryTerms(num_candidates=count, temperatures=np.ones(len(TOKENS), np.float32))
    output = executor(weights, instruction_set=instruction_set).run(a_pass(summary=terms))
    for place in range(len(TOKENS)):
        ids, values = largest(output.logits[place], count)
        assert output.summary.candidates[place].tolist() == ids.tolist()
        assert output.summary.logits[place].tolist() == values.tolist()


def test_every_token_can_be_a_candidate():
    weights = tiny_weights("llama", "float32", ODD)
    terms = SummaryTerms(num_candidates=weights.vocab_size, temperatures=np.ones(len(TOKENS), np.float32))
    summary = executor(weights).run(a_pass(summary=terms)).summary
    assert np.array_equal(np.sort(summary.candidates), np.tile(np.arange(weights.vocab_size), (len(TOKENS), 1)))


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("vocab_size", [48, 61])
def test_log_totals_are_those_of_the_law_at_each_temperature(instruction_set, vocab_size):
    weights = tiny_weights("llama", "float32", {"vocab_size": vocab_size})
    heat = np.array([1.0, 0.25, 3.0, 1e-3, 0.7], np.float32)
    output = executor(weights, instruction_set=instruction_set).run(
        a_pass(summary=SummaryTerms(num_candidates=1, temperatures=heat))
    )
    scaled = output.logits.astype(np.float64) / heat.astype(np.float64)[:, None]
    most = scaled.max(-1)
    expected = most + np.log(np.exp(scaled - most[:, None]).sum(-1))
    np.testing.assert_allclose(output.summary.log_totals, expected, rtol=2e-6, atol=2e-6)


def test_the_normed_states_give_the_logits():
    weights = tiny_weights("llama", "float32", ODD)
    output = executor(weights).run(a_pass(scored=ints([4, 1]), wants_normed=True))
    head = np.stack([weights.head.row(row) for row in range(weights.vocab_size)])
    np.testing.assert_allclose(output.normed @ head.T, output.logits, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_a_token_sees_all_of_its_row_and_none_of_another(kind):
    weights = tiny_weights("llama", kind, ODD)
    rows = [Row(tokens=TOKENS, slots=range(5), context=()), Row(tokens=(3, 4), slots=range(8, 10))]
    given = replace(pass_input(rows), sees_both_ways=True, parents=ints([]))
    together = executor(weights).run(given).logits.copy()
    alone = executor(weights).run(a_pass(sees_both_ways=True, parents=ints([]))).logits.copy()
    assert np.array_equal(together[:5], alone)
    changed = executor(weights).run(a_pass(sees_both_ways=True, tokens=ints([*TOKENS[:4], 8]))).logits
    assert all(not np.array_equal(changed[place], alone[place]) for place in range(5))
    one = Row(tokens=TOKENS[:1], slots=[0])
    both = executor(weights).run(replace(pass_input([one]), sees_both_ways=True)).logits.copy()
    assert np.array_equal(both, executor(weights).run(pass_input([one])).logits)


def test_executors_share_threads_and_close_in_any_order():
    weights = tiny_weights("llama", "bfloat16", ODD)
    expected = executor(weights).run(a_pass()).logits.copy()
    owner = executor(weights, num_threads=3)
    guests = [executor(weights, shares=owner) for _ in range(2)]
    assert np.array_equal(owner.run(a_pass()).logits, expected)
    assert np.array_equal(guests[0].run(a_pass()).logits, expected)
    owner.close()
    guests[0].close()
    assert np.array_equal(guests[1].run(a_pass()).logits, expected)
    with pytest.raises(ProtocolError, match="closed"):
        executor(weights, shares=owner)


def windowed() -> ModelWeights:
    weights = tiny_weights("llama", "float32", ODD)
    return replace(weights, layers=(replace(weights.layers[0], window=4), *weights.layers[1:]))


TERMS = {"num_candidates": 2, "temperatures": np.ones(len(TOKENS), np.float32)}
REFUSED = {
    "more candidates than tokens": ({"num_candidates": 10_000}, "num_candidates is 10000, and there are"),
    "negative candidates": ({"num_candidates": -1}, "num_candidates is -1"),
    "no temperature": ({"temperatures": np.array([1, 1, 0, 1, 1], np.float32)}, r"Temperature 0\.0+ is not above 0"),
    "no number": ({"temperatures": np.full(5, np.nan, np.float32)}, "is not above 0"),
    "too few temperatures": ({"temperatures": np.ones(3, np.float32)}, r"shape \[3\] in float32"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_a_summary_that_cannot_be_is_refused(changes, words):
    weights = tiny_weights("llama", "float32", ODD)
    with pytest.raises(ProtocolError, match=words):
        executor(weights).run(a_pass(summary=SummaryTerms(**{**TERMS, **changes})))


def test_what_does_not_fit_together_is_refused():
    weights = tiny_weights("llama", "float32", ODD)
    with pytest.raises(ProtocolError, match=r"shape \[4, 52\].*\[5, 52\]"):
        executor(weights).run(a_pass(states=states_of(weights, TOKENS[:4])))
    with pytest.raises(ProtocolError, match="Layer 0 has a window"):
        executor(windowed()).run(a_pass(sees_both_ways=True))
    with pytest.raises(ProtocolError, match="different lengths"):
        executor(weights).run(a_pass(parents=ints([])))
    with pytest.raises(ProtocolError, match="There is a taps_norm, and there are no taps"):
        executor(replace(weights, taps_norm=np.ones(52, np.float32)))


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_refused_where_they_cannot_be(kind):
    plain = tiny_weights("llama", kind, ODD)
    entries = ContextEntries(taps=np.ones((2, 20), np.float32), positions=ints([0, 1]), slots=ints([0, 1]))
    with pytest.raises(ProtocolError, match="This model has no taps"):
        executor(plain).append(replace(entries, taps=np.ones((2, 0), np.float32)))
    taps = pack(kind, [np.ones((52, 20), np.float32)])
    tapped = executor(replace(plain, taps=taps, taps_norm=np.ones(52, np.float32)))
    tapped.append(entries)
    tapped.append(replace(entries, taps=entries.taps[:0], positions=ints([]), slots=ints([])))
    with pytest.raises(ProtocolError, match="Slot 1 is fed twice"):
        tapped.append(replace(entries, slots=ints([1, 1])))
    with pytest.raises(ProtocolError, match="slot 64 at 1 is outside"):
        tapped.append(replace(entries, slots=ints([1, 64])))
    with pytest.raises(ProtocolError, match="position -1 at 0"):
        tapped.append(replace(entries, positions=ints([-1, 0])))
    with pytest.raises(ProtocolError, match="2 context entries have 1 slots"):
        tapped.append(replace(entries, slots=ints([0])))
    with pytest.raises(ProtocolError, match=r"\[2, 19\]"):
        tapped.append(replace(entries, taps=np.ones((2, 19), np.float32)))
