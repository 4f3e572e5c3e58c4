"""Whole passes against the torch decoder in float64, what a pass refuses, and what it never reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from paradraft.core.arrays import DoubleArray, ints, starts_of
from paradraft.core.errors import ConfigError, ProtocolError
from paradraft.models.decoder import PassResult, Taps, build_decoder
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.kv_store import KvShape, KvStore, Slots
from paradraft.models.layout import PassLayout, RowSpan, additive
from paradraft.models.tiny import tiny_config, tiny_tensors
from paradraft.models.visibility import RowTokens, visible_keys
from paradraft.native.executor import Executor
from paradraft.native.packing import pack
from paradraft.native.records import PassInput, PassOutput
from paradraft.native.weights import ModelWeights
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS, ODD, Row, native_weights, pass_input, tiny_weights

pytestmark = needs_native
TOKENS = np.random.default_rng(2).integers(0, 259, 50).tolist()
PARENTS = [*range(-1, 39), 39, 39, 41, 40, 42, 38, 44, 30, 47, -1]  # a prompt of 40, then branches from all over
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
CHANGES: Mapping[str, Mapping[str, object]] = {
    "llama": ODD,
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
}


def configuration(name: str) -> dict[str, object]:
    return tiny_config(name if name in FAMILIES else "llama", CHANGES.get(name))


def tensors_of(name: str, kind: str) -> dict[str, torch.Tensor]:
    """Random weights; for int4, whose steps are too coarse for them, those that it makes of them."""
    tensors = tiny_tensors(configuration(name), seed=3)
    return {key: held_by_int4(tensor) if kind == "int4" else tensor for key, tensor in tensors.items()}


def held_by_int4(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.ndim != 2:
        return tensor
    packed = pack("int4", [tensor.numpy()])
    return torch.from_numpy(np.stack([packed.row(row) for row in range(packed.outputs)]))


@cache
def reference(name: str, kind: str) -> PassResult:
    """What the torch decoder makes of the tokens in float64, the branches as nodes behind the prompt."""
    config = read_decoder_config(configuration(name))
    decoder = build_decoder(config, tensors_of(name, kind), dtype=torch.float64, device=torch.device("cpu"))
    shape = KvShape(
        num_layers=config.num_layers, num_heads=config.num_key_heads, key_dim=config.head_dim, value_dim=config.head_dim
    )
    store = KvStore(shape, num_pages=4, page_size=16, dtype=torch.float64, device=torch.device("cpu"))
    count, slots = len(TOKENS), Slots(first=0, count=len(TOKENS))
    positions = depths(PARENTS)
    spans = {}
    for window in set(config.windows):
        mask = additive(visible(window), torch.float64, torch.device("cpu"))
        spans[window] = (RowSpan(first=0, stop=count, keys=slots, mask=mask, is_causal=False, is_folded=False),)
    layout = PassLayout(
        fed_starts=starts_of([count]),
        starts=starts_of([count]),
        tokens=torch.tensor(TOKENS),
        positions=torch.tensor(positions),
        highest_position=max(positions),
        slots=slots,
        scored=None,
        spans=spans,
    )
    layers = frozenset(range(config.num_layers))
    with torch.inference_mode():
        return decoder.run(layout, store, Taps(hidden_layers=layers | {-1}, entropy_layers=layers))


def depths(parents: list[int]) -> list[int]:
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def visible(window: int | None) -> np.ndarray:
    """Which tokens each token sees, worked out from the parents alone."""
    seen = np.eye(len(PARENTS), dtype=np.bool_)
    for token, parent in enumerate(PARENTS):
        if parent >= 0:
            seen[token] |= seen[parent]
    places = np.array(depths(PARENTS))
    return seen if window is None else seen & (places[:, None] - places[None, :] < window)


def run(weights: ModelWeights, given: PassInput, **options: object) -> PassOutput:
    executor = Executor(weights, num_slots=64, num_threads=2, **options)  # type: ignore[arg-type]
    output = executor.run(given)
    executor.close()
    return output


def distance(found: np.ndarray, exact: torch.Tensor) -> float:
    """The largest difference, in units of the largest value."""
    values: DoubleArray = exact.double().numpy()
    return float(np.abs(found - values).max() / np.abs(values).max())


# fp32 sums; weights, activations and cache in bf16; int8 weights and activations, whose steps are 1/254 of the largest,
# and the latter beside int4 weights
ALLOWED = {"float32": 1e-5, "bfloat16": 2e-2, "int8": 8e-2, "int4": 8e-2}


@pytest.mark.parametrize("name", [*FAMILIES, "yarn"])
@pytest.mark.parametrize(("instruction_set", "kind"), list(product(INSTRUCTION_SETS, ALLOWED)))
def test_a_pass_is_that_of_the_torch_decoder(name: str, instruction_set: str, kind: str):
    config = configuration(name)
    weights = native_weights(config, tensors_of(name, kind), kind)
    exact, layers = reference(name, "int4" if kind == "int4" else ""), range(len(weights.layers))
    given = pass_input([Row(TOKENS, range(50), parents=PARENTS)], hidden=[-1, *layers], entropy=layers)
    cache_kind = "float32" if kind == "float32" else "bfloat16"
    found = run(weights, given, cache_kind=cache_kind, instruction_set=instruction_set)
    assert distance(found.logits, exact.logits) < ALLOWED[kind]
    for layer, hidden in found.hidden.items():
        assert distance(hidden, exact.hidden[layer]) < ALLOWED[kind]
    for layer, entropies in found.entropies.items():
        assert distance(entropies, exact.entropies[layer]) < ALLOWED[kind]


def test_the_reference_sees_what_the_torch_runner_shows():
    """The mask of this file and the one that serves agree on a tree behind a prompt."""
    parents = [-1, 0, 0, 2]
    row = RowTokens.of(context=0, num_pending=46, parents=ints(parents), depths=ints([1, 2, 2, 3]), is_chain=False)
    theirs = visible_keys(row, 7)
    whole = [*range(-1, 45), *(45 if parent < 0 else 46 + parent for parent in parents)]
    seen = np.eye(50, dtype=np.bool_)
    for token, parent in enumerate(whole):
        if parent >= 0:
            seen[token] |= seen[parent]
    places = np.array(depths(whole))
    assert np.array_equal(theirs, seen & (places[:, None] - places[None, :] < 7))


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("cache_kind", ["float32", "bfloat16"])
def test_what_lies_in_other_slots_is_never_read(instruction_set: str, cache_kind: str):
    """A model whose every second token is not a number fills the cache; a later pass beside it stays clean."""
    weights = tiny_weights("mistral", "float32", ODD)
    embedding = np.array(weights.embedding)
    embedding[1::2] = np.nan
    executor = Executor(
        replace(weights, embedding=embedding),
        num_slots=64,
        num_threads=1,
        cache_kind=cache_kind,
        instruction_set=instruction_set,
    )
    given = pass_input([Row([2 * token for token in range(20)], range(3, 23), parents=[-1, *PARENTS[1:18], 3, 17])])
    clean = executor.run(given).logits.copy()
    assert np.isnan(executor.run(pass_input([Row([1] * 64, range(64))])).logits).all()
    assert np.array_equal(executor.run(given).logits, clean)
    executor.close()


def test_two_engines_share_weights_and_nothing_else():
    weights = tiny_weights("llama", "bfloat16")
    first, second = (Executor(weights, num_slots=32, num_threads=2) for _ in range(2))
    for executor, tokens in ((first, TOKENS[:10]), (second, TOKENS[10:20])):
        executor.run(pass_input([Row(tokens, range(10))]))
    given = pass_input([Row(TOKENS[20:21], [10], range(10))])
    ours, theirs = first.run(given).logits.copy(), second.run(given).logits
    assert not np.array_equal(ours, theirs)
    second.close()
    assert np.array_equal(first.run(given).logits, ours)
    first.close()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tokens": [5, 259]}, "token 259"),
        ({"tokens": [-1, 5]}, "token -1"),
        ({"slots": [10, 64]}, "slot 64"),
        ({"slots": [10, 10]}, "Slot 10 is fed twice"),
        ({"slots": [10, 2]}, "Slot 2 is fed and read"),
        ({"context_slots": [0, 1, -1]}, "context slot -1"),
        ({"parents": [-1, 1]}, "Parent 1"),
        ({"parents": [-2, 0]}, "parent -2"),
        ({"positions": [3, -4]}, "position -4"),
        ({"scored": [2]}, "scored token 2"),
        ({"row_starts": [0, 1]}, "Rows end at token 1"),
        ({"row_starts": [0, 3]}, "Rows end at token 3"),
        ({"hidden_layers": [3]}, "tapped layer 3"),
        ({"entropy_layers": [-1]}, "entropy layer -1"),
        ({"entropy_layers": [1, 1]}, "twice"),
        ({"positions": [3]}, "different lengths"),
        ({"context_slots": [0, 1]}, "2 context slots"),
    ],
)
def test_a_pass_that_cannot_be_is_refused_and_changes_nothing(changes: dict[str, list[int]], named: str):
    executor = Executor(tiny_weights("llama", "float32"), num_slots=64, num_threads=1)
    executor.run(pass_input([Row(TOKENS[:3], range(3))]))
    good = pass_input([Row(TOKENS[3:5], [10, 11], range(3))])
    expected = executor.run(good).logits.copy()
    with pytest.raises(ProtocolError, match=named):
        executor.run(replace(good, **{name: ints(values) for name, values in changes.items()}))
    assert np.array_equal(executor.run(good).logits, expected)
    executor.close()


def test_a_model_whose_parts_do_not_fit_is_refused():
    weights = tiny_weights("llama", "float32")
    layer = weights.layers[0]
    wrong: list[tuple[dict[str, object], str]] = [
        ({"layers": (replace(layer, output=layer.down),)}, "output of layer 0"),
        ({"layers": (replace(layer, query_norm=weights.final_norm[:8]),)}, "query_norm and key_norm"),
        ({"layers": (replace(layer, input_norm=weights.final_norm[:8]),)}, "shape"),
        ({"num_key_heads": 4}, "num_heads is 6"),
        ({"head_dim": 7}, "shape|head_dim is 7"),
        ({"layers": ()}, "num_layers is 0"),
        ({"embedding": np.zeros((3, 4), dtype=np.float32)}, "embedding"),
    ]
    for changes, named in wrong:
        with pytest.raises(ProtocolError, match=named):
            Executor(replace(weights, **changes), num_slots=8, num_threads=1)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="num_slots is 0"):
        Executor(weights, num_slots=0, num_threads=1)
    with pytest.raises(ConfigError, match="mmx"):
        Executor(weights, num_slots=8, num_threads=1, instruction_set="mmx")


def test_a_closed_executor_says_so():
    executor = Executor(tiny_weights("llama", "float32"), num_slots=8, num_threads=2)
    executor.close()
    executor.close()
    with pytest.raises(ProtocolError, match="closed"):
        executor.run(pass_input([Row([1], [0])]))


def test_moves_outside_the_cache_are_refused():
    executor = Executor(tiny_weights("llama", "float32"), num_slots=8, num_threads=1)
    for sources, destinations in (([8], [0]), ([0], [-1])):
        with pytest.raises(ProtocolError, match="slot"):
            executor.move(ints(sources), ints(destinations))
    with pytest.raises(ProtocolError, match="1 slots cannot move to 2"):
        executor.move(ints([1]), ints([2, 3]))
    executor.close()
