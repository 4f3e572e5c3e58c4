"""The native core against the torch runner on the same weights, for every family, rope type and variant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from paradraft.core.arrays import FloatArray
from paradraft.core.ports import Needs, Scores, Target
from paradraft.core.records import Proposal
from paradraft.models.families import FAMILIES
from paradraft.models.runner import TorchRunner
from paradraft.models.tiny import VOCAB_SIZE, tiny_config, tiny_tensors
from support.native import native_runner, needs_native
from support.passes import Row, Tree, batch_of, proposal_of
from support.variants import ROPES, VARIANTS

PAGE_SIZE = 8
PAGES = [3, 9, 4, 11, 0, 7, 15, 2]
LENGTH = 40  # longer than every sliding window of the tiny models
TOKENS = np.random.default_rng(5).integers(3, VOCAB_SIZE, LENGTH).tolist()
TREE = Tree(tokens=[40, 41, 42, 43, 44, 45], parents=[-1, -1, 0, 0, 1, 4])
TAPS = Needs(sources=("test",), hidden_layers=(-1, 0, 1, 2), entropy_layers=(0, 1, 2))
pytestmark = needs_native


def torch_runner(config: Mapping[str, object], dtype: torch.dtype) -> Target:
    return TorchRunner.build(
        config,
        {name: tensor.double() for name, tensor in tiny_tensors(config, seed=1).items()},
        dtype=dtype,
        device=torch.device("cpu"),
        num_pages=16,
        page_size=PAGE_SIZE,
        needs=TAPS,
    )


def native(config: Mapping[str, object], dtype: str = "fp32") -> Target:
    return native_runner(
        config, tiny_tensors(config, seed=1), num_pages=16, page_size=PAGE_SIZE, dtype=dtype, needs=TAPS
    )


def score(target: Target, row: Row, tree: Tree | None = None) -> Scores:
    proposal = Proposal.empty(1) if tree is None else proposal_of([tree])
    return target.submit(batch_of([row], PAGE_SIZE), proposal).wait()


def logits(scores: Scores) -> FloatArray:
    return np.stack([scores.row(index) for index in range(int(scores.starts[-1]))])


def whole(target: Target) -> Scores:
    return score(target, Row(tokens=TOKENS, pages=PAGES, num_scored=LENGTH))


def with_tree(target: Target) -> Scores:
    score(target, Row(tokens=TOKENS[:17], pages=PAGES, num_scored=0))
    return score(target, Row(tokens=TOKENS[:20], cached=17, pages=PAGES, num_scored=3), TREE)


def assert_near(ours: Scores, theirs: Scores, *, atol: float) -> None:
    expected = logits(theirs)
    assert np.abs(expected).max() > 5  # else a tolerance would mean little
    np.testing.assert_allclose(logits(ours), expected, rtol=0, atol=atol)
    for layer in TAPS.hidden_layers:
        np.testing.assert_allclose(ours.hidden(layer), theirs.hidden(layer), rtol=0, atol=atol)
    for layer in TAPS.entropy_layers:
        np.testing.assert_allclose(ours.attention_entropy(layer), theirs.attention_entropy(layer), rtol=0, atol=atol)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
@pytest.mark.parametrize("family", FAMILIES)
def test_fp32_logits_and_taps_equal_those_of_torch_in_float64(family: str, rope: Mapping[str, object]) -> None:
    config = tiny_config(family, {"rope_parameters": dict(rope)})
    assert_near(whole(native(config)), whole(torch_runner(config, torch.float64)), atol=1e-4)


@pytest.mark.parametrize(("family", "changes"), VARIANTS.values(), ids=VARIANTS.keys())
def test_fp32_logits_and_taps_of_each_variant_equal_those_of_torch(family: str, changes: Mapping[str, object]) -> None:
    config = tiny_config(family, changes)
    assert_near(whole(native(config)), whole(torch_runner(config, torch.float64)), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_nodes_of_a_tree_behind_a_cached_text_equal_those_of_torch(family: str) -> None:
    config = tiny_config(family)
    assert_near(with_tree(native(config)), with_tree(torch_runner(config, torch.float64)), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_is_as_near_to_the_exact_logits_as_torch_in_bf16(family: str) -> None:
    """Both round to bf16; the core keeps norms and sums in fp32, so it may only be nearer."""
    config = tiny_config(family)
    exact = logits(whole(torch_runner(config, torch.float64)))
    ours = logits(whole(native(config, "bf16"))) - exact
    theirs = logits(whole(torch_runner(config, torch.bfloat16))) - exact
    assert np.sqrt((ours**2).mean()) <= 1.1 * np.sqrt((theirs**2).mean())


@pytest.mark.parametrize("family", FAMILIES)
def test_int8_stays_near_the_exact_logits(family: str) -> None:
    config = tiny_config(family)
    exact = logits(whole(torch_runner(config, torch.float64)))
    error = logits(whole(native(config, "int8"))) - exact
    assert 1e-4 < np.sqrt((error**2).mean()) < 0.1 * exact.std()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_layers_are_a_model_of_their_own(family: str) -> None:
    config = tiny_config(family)
    ours = native(config).first_layers(2, num_pages=16, page_size=PAGE_SIZE)
    theirs = torch_runner(config, torch.float64).first_layers(2, num_pages=16, page_size=PAGE_SIZE)
    np.testing.assert_allclose(logits(whole(ours)), logits(whole(theirs)), rtol=0, atol=1e-4)
