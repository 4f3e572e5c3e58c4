"""The best ids that a pass finds while it makes logits."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ProtocolError
from paradraft.native.executor import Executor
from paradraft.native.library import check, load_library
from paradraft.native.packing import pack
from paradraft.native.records import PassInput
from paradraft.native.structs import ErrorStruct
from paradraft.native.weights import ModelWeights
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS, KINDS, Row, pass_input, tiny_weights

pytestmark = needs_native

NUM_TOKENS = 131  # more than a stretch of tokens that meets the weights together


def all_tokens(vocab_size: int) -> PassInput:
    return pass_input([Row([token * 7 % vocab_size for token in range(NUM_TOKENS)], range(NUM_TOKENS))])


def with_bias(bias: FloatArray) -> ModelWeights:
    weights = tiny_weights("mistral", "float32")
    return replace(weights, head=replace(weights.head, bias=bias))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_the_best_ids_are_those_of_numpy(kind: str, instruction_set: str, num_threads: int) -> None:
    weights = tiny_weights("mistral", kind)
    executor = Executor(weights, num_slots=256, num_threads=num_threads, instruction_set=instruction_set)
    given = all_tokens(weights.vocab_size)
    for chosen in (
        given,
        replace(given, scored=given.scored[::-1][:3].copy()),
        replace(given, scored=given.scored[:0]),
    ):
        output = executor.run(chosen)
        assert output.best.tolist() == output.logits.argmax(axis=-1).tolist()
        assert output.best.dtype == np.int32
    executor.close()


@pytest.mark.parametrize("num_threads", [1, 2, 12])
def test_the_lowest_id_wins_a_tie_wherever_the_others_are_made(num_threads: int) -> None:
    """A head that holds every row three times ties each logit with two others, far away.

    Of more threads than cores some come late, and those that are done with their own outputs go on with lower ids.
    """
    weights = tiny_weights("mistral", "float32")
    size, embedding = weights.vocab_size, np.asarray(weights.embedding)
    rows = np.stack([weights.head.row(row) for row in range(size)])
    thrice = replace(weights, head=pack("float32", [np.tile(rows, (3, 1))]), embedding=np.tile(embedding, (3, 1)))
    executor = Executor(thrice, num_slots=256, num_threads=num_threads)
    for _ in range(10):
        output = executor.run(all_tokens(size))
        assert np.array_equal(output.logits[:, :size], output.logits[:, size : 2 * size])
        assert output.best.max() < size
        assert output.best.tolist() == output.logits.argmax(axis=-1).tolist()
    executor.close()


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("places", [[7], [200, 30], [0, 258], list(range(259))])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_that_is_not_a_number_counts_as_the_largest(
    instruction_set: str, places: list[int], bad: float
) -> None:
    bias = np.zeros(259, dtype=np.float32)
    bias[places] = bad
    executor = Executor(with_bias(bias), num_slots=256, num_threads=2, instruction_set=instruction_set)
    output = executor.run(all_tokens(259))
    assert output.best.tolist() == output.logits.argmax(axis=-1).tolist()
    executor.close()


def test_the_best_of_another_number_of_tokens_are_refused() -> None:
    executor = Executor(tiny_weights("llama", "float32"), num_slots=8, num_threads=1)
    executor.run(pass_input([Row([1, 2], [0, 1])]))
    best, error = np.empty(3, dtype=np.int32), ErrorStruct()
    function = load_library().functions.paradraft_engine_best
    engine = executor.opened_engine()
    with pytest.raises(ProtocolError, match="scored 2 tokens, not 3"):
        check(function(engine, 3, best.ctypes.data, ctypes.byref(error)), error)
    executor.close()
