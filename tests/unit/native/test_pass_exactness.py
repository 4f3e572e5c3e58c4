"""A token's bits depend on its own prefix only, whatever company, slots, chunks and threads it meets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product

import numpy as np
import pytest

from paradraft.native.executor import Executor
from paradraft.native.weights import ModelWeights
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS, KINDS, ODD, Bits, Row, Runner, pass_input, tiny_weights

pytestmark = needs_native
NUM_SLOTS = 1024
TEXT = tuple(int(token) for token in np.random.default_rng(5).integers(0, 259, 600))
COMBINATIONS = list(product(INSTRUCTION_SETS, KINDS))
FAMILIES = ("llama", "qwen2", "qwen3", "smollm3")  # plain; biases and a window; norms of heads; layers without rope


@cache
def weights(family: str, kind: str) -> ModelWeights:
    return tiny_weights(family, kind, ODD)


@contextmanager
def running(
    family: str, kind: str, instruction_set: str, *, threads: int = 1, cache_kind: str = "bfloat16"
) -> Iterator[Runner]:
    model = weights(family, kind)
    executor = Executor(
        model, num_slots=NUM_SLOTS, num_threads=threads, cache_kind=cache_kind, instruction_set=instruction_set
    )
    try:
        yield Runner(executor, num_layers=len(model.layers))
    finally:
        executor.close()


@cache
def one_by_one(family: str, kind: str, instruction_set: str, length: int, cache_kind: str = "bfloat16") -> list[Bits]:
    """The bits of the first tokens of the text, each fed alone, in slots that follow each other."""
    with running(family, kind, instruction_set, cache_kind=cache_kind) as runner:
        return [runner.feed([Row([TEXT[i]], [i], range(i))])[0][0] for i in range(length)]


def assert_same(found: Sequence[Bits], expected: Sequence[Bits], what: str) -> None:
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        ours.assert_same(theirs, f"token {number} {what}")


def scattered(seed: int, count: int) -> list[int]:
    return [int(slot) for slot in np.random.default_rng(seed).permutation(NUM_SLOTS)[:count]]


def paged(seed: int, count: int, size: int) -> list[int]:
    """Slots of pages in any order, as the cache hands them out."""
    pages = np.random.default_rng(seed).permutation(NUM_SLOTS // size)
    return [int(page) * size + offset for page in pages for offset in range(size)][:count]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("instruction_set", "kind"), COMBINATIONS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks_do_not_matter(family: str, instruction_set: str, kind: str, threads: int):
    expected = one_by_one(family, kind, instruction_set, 40)
    for size in (2, 3, 7, 16, 17, 40):
        with running(family, kind, instruction_set, threads=threads) as runner:
            found: list[Bits] = []
            for first in range(0, 40, size):
                stop = min(40, first + size)
                found += runner.feed([Row(TEXT[first:stop], range(first, stop), range(first))])[0]
        assert_same(found, expected, f"in chunks of {size}")


@pytest.mark.parametrize("cache_kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(("instruction_set", "kind"), COMBINATIONS)
def test_slots_do_not_matter(instruction_set: str, kind: str, cache_kind: str):
    expected = one_by_one("qwen2", kind, instruction_set, 40, cache_kind)
    places = {"scattered": scattered(1, 40), "backwards": list(range(39, -1, -1)), "shifted": list(range(5, 45))}
    places |= {f"in pages of {size}": paged(size, 40, size) for size in (1, 3, 8, 16, 32)}
    for name, slots in places.items():
        with running("qwen2", kind, instruction_set, threads=2, cache_kind=cache_kind) as runner:
            found = runner.feed([Row(TEXT[:33], slots[:33])])[0]
            found += runner.feed([Row(TEXT[33:40], slots[33:], slots[:33])])[0]
        assert_same(found, expected, name)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize(("heads", "key_heads"), [(28, 2), (13, 1), (5, 5)])
def test_heads_that_share_a_key_head_may_be_many_or_one(instruction_set: str, heads: int, key_heads: int):
    """More queries than one task takes are cut into several, and few tasks are cut finer for more threads."""
    changes = {**ODD, "num_attention_heads": heads, "num_key_value_heads": key_heads}
    model = tiny_weights("mistral", "bfloat16", changes)
    found = []
    for threads, size in ((1, 1), (1, 30), (3, 2), (8, 30)):
        executor = Executor(model, num_slots=32, num_threads=threads, instruction_set=instruction_set)
        runner = Runner(executor, num_layers=len(model.layers))
        parts = (runner.feed([Row(TEXT[i : i + size], range(i, i + size), range(i))])[0] for i in range(0, 30, size))
        found.append([bits for part in parts for bits in part])
        executor.close()
    for other in found[1:]:
        assert_same(other, found[0], "with other threads")


@pytest.mark.parametrize(("instruction_set", "kind"), COMBINATIONS)
def test_other_rows_do_not_matter(instruction_set: str, kind: str):
    """Rows of every length up to 19 share a pass, empty ones among them; each holds a beginning of the text."""
    expected = one_by_one("qwen2", kind, instruction_set, 40)
    generator = np.random.default_rng(7)
    for _ in range(6):
        slots = scattered(int(generator.integers(1000)), NUM_SLOTS)
        lengths = generator.integers(0, 20, 8).tolist()
        contexts = [int(generator.integers(0, 41 - length)) for length in lengths]
        with running("qwen2", kind, instruction_set, threads=2) as runner:
            rows, first = [], 0
            for context, length in zip(contexts, lengths, strict=True):
                own = slots[first : first + context + length]
                first += context + length
                if context:
                    runner.feed([Row(TEXT[:context], own[:context])])
                rows.append(Row(TEXT[context : context + length], own[context:], own[:context]))
            for context, length, found in zip(contexts, lengths, runner.feed(rows), strict=True):
                assert_same(found, expected[context : context + length], f"of a row of {length} behind {context}")


def parents_of_all_trees(size: int) -> Iterator[tuple[int, ...]]:
    return product(*(range(-1, node) for node in range(size)))


@cache
def along_paths(family: str, kind: str, instruction_set: str, context: int, size: int) -> dict[tuple[int, ...], Bits]:
    """The bits at the end of every path that rises through nodes 0 .. size, fed token by token behind a context."""
    found: dict[tuple[int, ...], Bits] = {}
    with running(family, kind, instruction_set) as runner:
        runner.feed([Row(TEXT[:context], range(context))])
        paths: list[tuple[int, ...]] = [()]
        while paths:
            path = paths.pop()
            for node in range(path[-1] + 1 if path else 0, size):
                longer = (*path, node)
                before = [context + step for step in range(len(path))]
                for step, earlier in enumerate(path):
                    row = Row([TEXT[100 + earlier]], [context + step], [*range(context), *before[:step]])
                    runner.feed([row])
                last = Row([TEXT[100 + node]], [context + len(path)], [*range(context), *before])
                found[longer] = runner.feed([last])[0][0]
                paths.append(longer)
    return found


def path_to(parents: Sequence[int], node: int) -> tuple[int, ...]:
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return tuple(path)


@pytest.mark.parametrize(("instruction_set", "kind"), COMBINATIONS)
def test_every_tree_up_to_five_nodes_equals_its_paths(instruction_set: str, kind: str):
    context = 14  # so that ancestors cross from one block of 16 keys to the next
    expected = along_paths("qwen2", kind, instruction_set, context, 5)
    slots = scattered(3, context + 5)
    with running("qwen2", kind, instruction_set, threads=2) as runner:
        runner.feed([Row(TEXT[:context], slots[:context])])
        for size in range(1, 6):
            for parents in parents_of_all_trees(size):
                row = Row(TEXT[100 : 100 + size], slots[context : context + size], slots[:context], parents)
                for node, bits in enumerate(runner.feed([row])[0]):
                    bits.assert_same(expected[path_to(parents, node)], f"node {node} of {parents}")


@pytest.mark.parametrize("context", [0, 1, 15, 16])
def test_every_tree_of_six_nodes_equals_its_paths(context: int):
    [*_, fastest] = INSTRUCTION_SETS
    expected = along_paths("llama", "bfloat16", fastest, context, 6)
    with running("llama", "bfloat16", fastest) as runner:
        if context:
            runner.feed([Row(TEXT[:context], range(context))])
        for parents in parents_of_all_trees(6):
            row = Row(TEXT[100:106], range(context, context + 6), range(context), parents)
            for node, bits in enumerate(runner.feed([row])[0]):
                bits.assert_same(expected[path_to(parents, node)], f"node {node} of {parents}")


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("window", [None, 16, 300])
def test_a_long_context_is_summed_up_in_one_order(instruction_set: str, window: int | None):
    """Sums are merged every 256 keys; a window begins inside one such span, and a long one covers several."""
    model = tiny_weights("mistral", "bfloat16", {**ODD, "sliding_window": window})
    found = []
    for seed, size in ((0, 1), (1, 530), (2, 255), (3, 64)):
        slots = paged(seed, 530, 16) if seed % 2 else scattered(seed, 530)
        executor = Executor(model, num_slots=NUM_SLOTS, num_threads=1 + seed % 2, instruction_set=instruction_set)
        runner = Runner(executor, num_layers=len(model.layers))
        bits: list[Bits] = []
        for first in range(0, 530, size):
            stop = min(530, first + size)
            bits += runner.feed([Row(TEXT[first:stop], slots[first:stop], slots[:first])])[0]
        executor.close()
        found.append(bits)
    for other in found[1:]:
        assert_same(other, found[0], "in chunks")


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_scoring_some_tokens_gives_the_bits_of_scoring_all(instruction_set: str):
    model = weights("llama", "bfloat16")
    rows = [Row(TEXT[:20], range(20))]
    executor = Executor(model, num_slots=NUM_SLOTS, num_threads=2, instruction_set=instruction_set)
    everything = executor.run(pass_input(rows)).logits.copy()
    for scored in ([19], [3, 2, 19, 3], []):
        some = executor.run(pass_input(rows, scored=scored)).logits
        assert np.array_equal(some.view(np.uint32), everything[scored].view(np.uint32))
    executor.close()


def test_moved_slots_keep_their_bits():
    expected = one_by_one("llama", "bfloat16", INSTRUCTION_SETS[-1], 40)
    slots = scattered(9, 39)
    with running("llama", "bfloat16", INSTRUCTION_SETS[-1]) as runner:
        runner.feed([Row(TEXT[:39], slots)])
        places = [slots[-1], *slots[:-1]]  # every slot's content goes where another's is
        runner.executor.move(np.array(slots, dtype=np.int32), np.array(places, dtype=np.int32))
        [[found]] = runner.feed([Row([TEXT[39]], [next(s for s in range(NUM_SLOTS) if s not in slots)], places)])
    found.assert_same(expected[39], "behind moved slots")
