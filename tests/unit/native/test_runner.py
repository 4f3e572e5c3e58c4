"""The native runner: what it tells of itself, what it refuses, and that bits depend on a token's own prefix only."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError, ModelError, ProtocolError
from paradraft.core.ports import LayeredTarget, Needs
from paradraft.core.records import Proposal
from paradraft.models.tiny import VOCAB_SIZE, tiny_config, tiny_tensors
from paradraft.native.library import INSTRUCTION_SET_VARIABLE, load_library
from paradraft.native.runner import NativeRunner
from support.native import native_runner, needs_native
from support.passes import Row, Tree, batch_of, proposal_of, slots_of

PAGE_SIZE, NUM_PAGES = 4, 24
TAPPED = Needs(sources=("test",), hidden_layers=(-1, 0, 2), entropy_layers=(1,))
TEXT = np.random.default_rng(3).integers(3, VOCAB_SIZE, 23).tolist()
PAGES, OTHER_PAGES = [6, 2, 9, 3, 11, 1, 0, 4], [20, 19, 18, 17, 16, 15, 14, 13]
pytestmark = needs_native


def runner_of(
    family: str = "llama", *, dtype: str = "bf16", threads: int = 1, needs: Needs = TAPPED, **changes: object
) -> NativeRunner:
    config = tiny_config(family, changes)
    return native_runner(
        config,
        tiny_tensors(config, 0),
        num_pages=NUM_PAGES,
        page_size=PAGE_SIZE,
        dtype=dtype,
        num_threads=threads,
        needs=needs,
    )


def outputs(runner: NativeRunner, row: Row, tree: Tree | None = None) -> list[np.ndarray]:
    """Return copies of the logits and of every tap."""
    proposal = Proposal.empty(1) if tree is None else proposal_of([tree])
    scores = runner.submit(batch_of([row], PAGE_SIZE), proposal).wait()
    logits = np.stack([scores.row(index) for index in range(int(scores.starts[-1]))])
    taps = [scores.hidden(layer).copy() for layer in TAPPED.hidden_layers]
    return [logits, *taps, scores.attention_entropy(1).copy()]


def whole(runner: NativeRunner, pages: list[int] = OTHER_PAGES) -> list[np.ndarray]:
    return outputs(runner, Row(tokens=TEXT, pages=pages, num_scored=len(TEXT)))


@pytest.mark.parametrize(("dtype", "size"), [("bf16", 2), ("fp32", 4)])
def test_limits_tell_what_was_built(dtype: str, size: int) -> None:
    limits = runner_of(dtype=dtype).limits
    assert (limits.vocab_size, limits.num_layers, limits.hidden_size) == (VOCAB_SIZE, 3, 48)
    assert (limits.max_positions, limits.num_pages, limits.page_size) == (512, NUM_PAGES, PAGE_SIZE)
    assert limits.dtype == dtype
    assert limits.bytes_per_token == 3 * 2 * 2 * 8 * size
    numbers = sum(tensor.numel() for tensor in tiny_tensors(tiny_config("llama"), 0).values() if tensor.ndim == 2)
    assert size * numbers <= limits.weight_bytes <= 1.5 * size * numbers
    assert limits.runner == f"the native core ({load_library().instruction_sets[-1]}, 1 thread)"


def test_an_instruction_set_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSTRUCTION_SET_VARIABLE, "portable")
    assert "portable" in runner_of().limits.runner
    monkeypatch.setenv(INSTRUCTION_SET_VARIABLE, "mmx")
    with pytest.raises(ConfigError, match="'mmx' cannot run here"):
        runner_of()


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "smollm3"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_bits_do_not_depend_on_chunks_slots_or_threads(family: str, dtype: str) -> None:
    expected = whole(runner_of(family, dtype=dtype, threads=2))
    runner = runner_of(family, dtype=dtype)
    for size in (1, 2, 5, 16):
        parts = []
        for low in range(0, len(TEXT), size):
            known = TEXT[: low + size]
            parts.append(outputs(runner, Row(tokens=known, cached=low, pages=PAGES, num_scored=len(known) - low)))
        for number, values in enumerate(expected):
            assert np.array_equal(np.concatenate([part[number] for part in parts]), values), (size, number)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3"])
def test_bits_of_a_node_are_those_of_its_path_decoded_plainly(family: str) -> None:
    runner = runner_of(family)
    expected = whole(runner)
    tree = Tree(tokens=[7, TEXT[15], 8, TEXT[16], TEXT[17], 9], parents=[-1, -1, 0, 1, 3, 3])
    outputs(runner, Row(tokens=TEXT[:11], pages=PAGES))
    found = outputs(runner, Row(tokens=TEXT[:15], cached=11, pages=PAGES), tree)
    for node, place in ((1, 15), (3, 16), (4, 17)):
        assert np.array_equal(found[0][1 + node], expected[0][place])
        for values, wanted in zip(found[1:], expected[1:], strict=True):
            assert np.array_equal(values[4 + node], wanted[place])


def test_a_moved_path_is_bit_for_bit_a_decoded_one() -> None:
    runner = runner_of()
    expected = whole(runner)
    outputs(runner, Row(tokens=TEXT[:10], pages=PAGES))
    tree = Tree(tokens=[7, TEXT[11], 8, TEXT[12]], parents=[-1, -1, 0, 1])
    outputs(runner, Row(tokens=TEXT[:11], cached=10, pages=PAGES), tree)
    runner.move(slots_of(PAGES, PAGE_SIZE, [12, 14]), slots_of(PAGES, PAGE_SIZE, [11, 12]))
    runner.move(ints([]), ints([]))
    found = outputs(runner, Row(tokens=TEXT[:14], cached=13, pages=PAGES))
    assert np.array_equal(found[0][0], expected[0][13])


@pytest.mark.parametrize(
    ("row", "tree", "named"),
    [
        (Row(tokens=[1, VOCAB_SIZE], pages=[0]), Tree(), f"token id {VOCAB_SIZE}"),
        (Row(tokens=[1], pages=[0]), Tree(tokens=[-2], parents=[-1]), "draft token id -2"),
        (Row(tokens=[1], pages=[NUM_PAGES]), Tree(), f"page {NUM_PAGES}"),
        (Row(tokens=[1] * 5, pages=[0]), Tree(), "page table is too short"),
        (Row(tokens=[1], pages=[0], num_scored=2), Tree(), "scored at more tokens"),
        (Row(tokens=[1] * 17, cached=16, pages=range(5)), Tree(), "Position 16"),
    ],
)
def test_passes_that_cannot_be_right_are_refused_before_they_touch_the_cache(row: Row, tree: Tree, named: str) -> None:
    runner = runner_of(max_position_embeddings=16)
    with pytest.raises(ProtocolError, match=named):
        runner.submit(batch_of([row], PAGE_SIZE), proposal_of([tree]))


@pytest.mark.parametrize(
    "needs",
    [
        Needs(sources=("test",), hidden_layers=(3,)),
        Needs(sources=("test",), hidden_layers=(-2,)),
        Needs(sources=("test",), entropy_layers=(-1,)),
    ],
)
def test_layers_that_are_not_there_cannot_be_tapped(needs: Needs) -> None:
    with pytest.raises(ProtocolError, match="cannot be tapped"):
        runner_of(needs=needs)


def test_the_first_layers_share_weights_and_keep_a_cache_of_their_own() -> None:
    runner = runner_of()
    expected = whole(runner)
    assert isinstance(runner, LayeredTarget)
    shortened = runner.first_layers(2, num_pages=8, page_size=PAGE_SIZE)
    assert (shortened.limits.num_layers, shortened.limits.weight_bytes, shortened.limits.num_pages) == (2, 0, 8)
    shortened.submit(batch_of([Row(tokens=TEXT, pages=range(8))], PAGE_SIZE), Proposal.empty(1)).wait()
    shortened.close()
    found = outputs(runner, Row(tokens=TEXT, cached=len(TEXT) - 1, pages=OTHER_PAGES))
    assert np.array_equal(found[0][0], expected[0][-1])
    for count in (0, 3):
        with pytest.raises(ConfigError, match=f"cannot draft with {count} of its 3 layers"):
            runner.first_layers(count, num_pages=8, page_size=PAGE_SIZE)


def test_a_closed_runner_refuses_passes_and_closing_again_is_harmless() -> None:
    runner = runner_of()
    runner.close()
    runner.close()
    with pytest.raises(ProtocolError, match="closed"):
        runner.submit(batch_of([Row(tokens=[1], pages=[0])], PAGE_SIZE), Proposal.empty(1))
    with pytest.raises(ProtocolError, match="closed"):
        runner.move(ints([0]), ints([1]))


def test_weights_too_large_for_bf16_are_refused_by_name() -> None:
    config = tiny_config("llama")
    tensors = tiny_tensors(config, 0)
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = 3.4e38  # rounds to infinity
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        native_runner(config, tensors, num_pages=2, page_size=4, dtype="bf16")
