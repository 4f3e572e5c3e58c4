from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Needs
from paradraft.core.records import Proposal
from paradraft.models.runner import TorchRunner
from paradraft.models.tiny import VOCAB_SIZE, tiny_config, tiny_tensors
from support.passes import Row, Tree, batch_of, proposal_of

PAGE_SIZE, NUM_PAGES = 4, 8
TAPPED = Needs(sources=("test",), hidden_layers=(0,), entropy_layers=(1,))


def runner_of(needs: Needs | None = None, dtype: torch.dtype = torch.float32, **changes: object) -> TorchRunner:
    config = tiny_config("llama", changes)
    return TorchRunner.build(
        config,
        tiny_tensors(config, 0),
        dtype=dtype,
        device=torch.device("cpu"),
        num_pages=NUM_PAGES,
        page_size=PAGE_SIZE,
        needs=needs,
    )


def test_limits_tell_what_was_built():
    limits = runner_of(dtype=torch.bfloat16).limits
    assert (limits.vocab_size, limits.num_layers, limits.hidden_size) == (VOCAB_SIZE, 3, 48)
    assert (limits.max_positions, limits.num_pages, limits.page_size) == (512, NUM_PAGES, PAGE_SIZE)
    assert limits.dtype == "bf16"
    assert limits.bytes_per_token == 3 * 2 * 2 * 8 * 2
    assert limits.weight_bytes == 2 * sum(tensor.numel() for tensor in tiny_tensors(tiny_config("llama"), 0).values())
    assert "torch" in limits.runner


@pytest.mark.parametrize(
    ("row", "tree", "named"),
    [
        (Row(tokens=[1, VOCAB_SIZE], pages=[0]), Tree(), f"token id {VOCAB_SIZE}"),
        (Row(tokens=[-1], pages=[0]), Tree(), "token id -1"),
        (Row(tokens=[1], pages=[0]), Tree(tokens=[VOCAB_SIZE], parents=[-1]), "draft token id"),
        (Row(tokens=[1], pages=[NUM_PAGES]), Tree(), f"page {NUM_PAGES}"),
        (Row(tokens=[1] * 5, pages=[0]), Tree(), "page table is too short"),
        (Row(tokens=[1] * 4, pages=[0]), Tree(tokens=[1], parents=[-1]), "page table is too short"),
        (Row(tokens=[1], pages=[0], num_scored=2), Tree(), "scored at more tokens"),
        (Row(tokens=[1], cached=1, pages=[0], num_scored=0), Tree(), "feeds none"),
        (Row(tokens=[1] * 17, cached=16, pages=range(5)), Tree(), "Position 16"),
        (Row(tokens=[1] * 15, cached=14, pages=range(5)), Tree(tokens=[1, 1], parents=[-1, 0]), "Position 16"),
    ],
)
def test_passes_that_cannot_be_right_are_refused_before_they_touch_the_cache(row: Row, tree: Tree, named: str):
    runner = runner_of(max_position_embeddings=16)
    with pytest.raises(ProtocolError, match=named):
        runner.submit(batch_of([row], PAGE_SIZE), proposal_of([tree]))


def test_siblings_at_the_last_position_fit():
    runner = runner_of(max_position_embeddings=16)
    row = Row(tokens=[1] * 15, pages=range(5))
    scores = runner.submit(batch_of([row], PAGE_SIZE), proposal_of([Tree(tokens=[1, 2, 3], parents=[-1] * 3)])).wait()
    assert len(scores.argmax()) == 4


def test_a_closed_runner_says_so():
    runner = runner_of()
    runner.close()
    with pytest.raises(ProtocolError, match="closed"):
        runner.submit(batch_of([Row(tokens=[1], pages=[0])], PAGE_SIZE), Proposal.empty(1))


@pytest.mark.parametrize(
    ("needs", "layer"),
    [
        (Needs(sources=(), hidden_layers=(3,)), 3),
        (Needs(sources=(), hidden_layers=(-2,)), -2),
        (Needs(sources=(), entropy_layers=(-1,)), -1),
        (Needs(sources=(), hidden_layers=(-1,), entropy_layers=(-1,)), -1),
        (Needs(sources=(), entropy_layers=(3,)), 3),
    ],
)
def test_taps_of_layers_that_do_not_exist_are_refused(needs: Needs, layer: int):
    with pytest.raises(ProtocolError, match=f"Layer {layer}"):
        runner_of(needs)


def test_only_the_taps_asked_for_are_recorded():
    scores = runner_of(TAPPED).submit(batch_of([Row(tokens=[1, 2, 3], pages=[0])], PAGE_SIZE), Proposal.empty(1)).wait()
    assert scores.hidden(0).shape == (3, 48)
    assert scores.attention_entropy(1).shape == (3, 6)
    np.testing.assert_allclose(scores.attention_entropy(1)[0], 0.0, atol=1e-6)  # the first token sees only itself
    with pytest.raises(ProtocolError):
        scores.hidden(1)
