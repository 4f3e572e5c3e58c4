"""What enters the first layer of a pass beside tokens and states: lines of taps, and sides that a layer reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.native.executor import Executor
from paradraft.native.packing import multiply, pack
from paradraft.native.records import ContextEntries, PassInput
from paradraft.native.weights import ModelWeights
from support.native import needs_native
from support.native_passes import KINDS, ODD, Row, pass_input, tiny_weights

pytestmark = needs_native
TOKENS, SIZE, WIDTH = (5, 9, 2, 11, 7), 52, 70
NO_TOKENS = ints([])


def run(weights: ModelWeights, **changes) -> np.ndarray:
    return Executor(weights, num_slots=64).run(a_pass(**changes)).logits.copy()


def a_pass(**changes) -> PassInput:
    return replace(pass_input([Row(tokens=TOKENS, slots=range(len(TOKENS)))]), tokens=NO_TOKENS, **changes)


def lines(count: int = len(TOKENS), width: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def tapped(kind: str, *, has_norm: bool) -> ModelWeights:
    taps = pack(kind, [lines(SIZE, WIDTH, seed=4)])
    norm = lines(1, SIZE, seed=5)[0] if has_norm else None
    return replace(tiny_weights("llama", kind, ODD), taps=taps, taps_norm=norm)


def wide(**changes) -> ModelWeights:
    """Return a model whose first layer reads a side as another model reads the state, and of the state nothing."""
    weights = tiny_weights("llama", "float32", ODD)
    first = weights.layers[0]
    plain = np.stack([first.query_key_value.row(row) for row in range(first.query_key_value.outputs)])
    both = pack("float32", [np.concatenate([plain, np.zeros_like(plain)], axis=1)])
    first = replace(first, query_key_value=both, side_norm=first.input_norm, **changes)
    return replace(weights, layers=(first, *weights.layers[1:]))


@pytest.mark.parametrize("has_norm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_taps_stand_for_states(kind, has_norm):
    weights, taps = tapped(kind, has_norm=has_norm), lines(width=WIDTH)
    states = multiply(weights.taps, taps)
    if weights.taps_norm is not None:
        spread = np.sqrt((states.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
        states = (states / spread * weights.taps_norm).astype(np.float32)
    expected = run(weights, states=states)
    tolerance = {"rtol": 0, "atol": 0.0 if not has_norm else 1e-4 if kind == "float32" else 0.03}
    np.testing.assert_allclose(run(weights, tapped=ints(range(5)), taps=taps), expected, **tolerance)
    some = ints([1, 4])
    states[some] = np.nan  # is not read
    np.testing.assert_allclose(run(weights, states=states, tapped=some, taps=taps[some]), expected, **tolerance)


def test_a_layer_reads_sides_through_their_norm_before_the_state():
    plain, states = tiny_weights("llama", "float32", ODD), lines()
    expected = run(plain, states=states)
    np.testing.assert_allclose(run(wide(), states=states, sides=states), expected, atol=1e-5)
    other = run(wide(), states=states, sides=lines(seed=9))
    assert np.abs(other - expected).max() > 0.1
    # What the first layer adds to is the state all the same.
    assert np.abs(run(wide(), states=lines(seed=8), sides=states) - expected).max() > 0.1


def test_a_layer_can_go_on_from_its_normed_state():
    ones = np.ones(SIZE, np.float32)
    states, sides = lines(), lines(seed=2)
    normed = states / np.sqrt((states.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
    expected = run(wide(input_norm=ones), states=normed.astype(np.float32), sides=sides)
    found = run(wide(input_norm=ones, goes_on_normed=True), states=states, sides=sides)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(run(wide(input_norm=ones), states=states, sides=sides) - expected).max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_what_is_fed_and_asked_nothing_leaves_the_keys_that_all_others_leave(kind, num_threads):
    weights = tapped(kind, has_norm=False)
    taps = lines(width=WIDTH)
    expected = run(weights, tapped=ints(range(5)), taps=taps)
    executor = Executor(weights, num_slots=64, num_threads=num_threads)
    fed = pass_input([Row(tokens=TOKENS[:3], slots=range(3))], scored=())
    executor.run(replace(fed, tokens=NO_TOKENS, tapped=ints(range(3)), taps=taps[:3]))
    rest = pass_input([Row(tokens=TOKENS[3:], slots=[3, 4], context=range(3))])
    found = executor.run(replace(rest, tokens=NO_TOKENS, tapped=ints(range(2)), taps=taps[3:])).logits
    assert np.array_equal(found, expected[3:])


def test_a_tap_or_an_entropy_of_the_last_layer_is_given_without_logits():
    weights, states = tiny_weights("llama", "float32", ODD), lines()
    terms = {"states": states, "hidden_layers": ints([1]), "entropy_layers": ints([1])}
    expected = Executor(weights, num_slots=64).run(a_pass(**terms))
    for name in ("hidden_layers", "entropy_layers"):
        asked = {**terms, "hidden_layers": NO_TOKENS, "entropy_layers": NO_TOKENS, name: ints([1])}
        found = Executor(weights, num_slots=64).run(a_pass(**asked, scored=NO_TOKENS))
        ours, theirs = ((each.hidden if name == "hidden_layers" else each.entropies)[1] for each in (found, expected))
        assert np.array_equal(ours, theirs)


TAPS = {"tapped": ints([0, 2]), "taps": lines(2, WIDTH)}
REFUSED = {
    "none behind itself": ({"tapped": ints([2, 2])}, "Tapped token 2 does not stand behind 2"),
    "order": ({"tapped": ints([2, 1])}, "Tapped token 1 does not stand behind 2"),
    "place": ({"tapped": ints([0, 5])}, r"tapped token 5 at 1 is outside 0 \.\. 4"),
    "missing taps": ({"taps": None}, "taps is missing"),
    "width": ({"taps": lines(2, WIDTH - 1)}, r"\[2, 69\].*\[2, 70\]"),
    "tokens of the others": ({"states": None, "tokens": ints([5, 9, 2, 11, 9999])}, "token 9999 at 4"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_taps_that_cannot_be_are_refused(changes, words):
    given = replace(a_pass(states=lines()), **{**TAPS, **changes})
    with pytest.raises(ProtocolError, match=words):
        Executor(tapped("float32", has_norm=False), num_slots=64).run(given)


def test_what_a_model_has_no_place_for_is_refused():
    with pytest.raises(ProtocolError, match="This model has no taps, so none can enter it"):
        run(tiny_weights("llama", "float32", ODD), states=lines(), tapped=ints([0]), taps=lines(1, 0))
    with pytest.raises(ProtocolError, match="Layer 0 reads sides, and they are missing"):
        run(wide(), states=lines())
    entries = ContextEntries(taps=lines(2, WIDTH), positions=ints([0, 1]), slots=ints([0, 1]))
    taps = pack("float32", [lines(SIZE, WIDTH)])
    with pytest.raises(ProtocolError, match="Layer 0 reads sides, which entries of contexts do not have"):
        Executor(replace(wide(), taps=taps), num_slots=64).append(entries)
    narrow = tiny_weights("llama", "float32", ODD).layers[0].query_key_value
    misfit = replace(wide(), layers=(replace(wide().layers[0], query_key_value=narrow), wide().layers[1]))
    with pytest.raises(ProtocolError, match=r"query_key_value of layer 0 .* \[\d+, 104\]"):
        Executor(misfit, num_slots=64)
