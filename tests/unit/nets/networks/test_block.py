"""Block networks learn: every slot and weight, from nothing, at any depth; the heads change what they should."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from paradraft.nets.networks.records import TrainingBatch
from support.drafting_nets import DRAFTED, SIZE, VOCABULARY, block_config, random_net

LENGTH = 20
WITH_HEADS = {"markov_rank": 6, "has_confidence": True, "has_mask_embedding": True}


def batch(seed: int = 0, anchors: tuple[int, ...] = (3, 7, 11)) -> TrainingBatch:
    draw = torch.Generator().manual_seed(seed)
    return TrainingBatch(
        ids=torch.randint(VOCABULARY, (LENGTH,), generator=draw),
        taps=torch.randn(LENGTH, 2 * SIZE, generator=draw),
        anchors=torch.tensor(anchors),
        doc=torch.zeros(LENGTH, dtype=torch.int64),
    )


@pytest.mark.parametrize("kind", ["vanilla", "gated"])
@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_every_slot_moves_every_weight(method: str, kind: str):
    """Markov heads of the first slot read the anchor, so they learn from it as well."""
    net = random_net(block_config(method, markov_kind=kind, **WITH_HEADS))
    for slot in range(net.config.block_size):
        net.zero_grad()
        output = net.draft_training(batch())
        loss = (
            functional.cross_entropy(output.logits[:, slot], torch.tensor([1, 5, 9]))
            + output.confidence[:, slot].square().sum()
        )
        loss.backward()
        idle = [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert not idle, f"slot {slot}"


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_networks_of_any_depth_learn_without_losing_their_numbers(layers: int):
    torch.manual_seed(1)
    net = random_net(block_config(num_layers=layers, **WITH_HEADS), spread=0.05)
    weights = torch.optim.AdamW(net.parameters(), lr=3e-3)
    labels = torch.randint(DRAFTED, (12,), generator=torch.Generator().manual_seed(2))
    losses = []
    for _ in range(20):
        loss = functional.cross_entropy(net.draft_training(batch()).logits.flatten(0, 1), labels)
        weights.zero_grad()
        loss.backward()
        weights.step()
        losses.append(float(loss.detach()))
    assert all(loss < float("inf") for loss in losses)
    assert losses[-1] < 0.7 * losses[0]


def test_a_fresh_correction_and_confidence_change_nothing_yet():
    torch.manual_seed(0)
    config = block_config(**WITH_HEADS)
    net = random_net(config)
    with torch.no_grad():
        net.markov_head.markov_w2.weight.zero_()
        net.confidence_head.proj.weight.zero_()
        net.confidence_head.proj.bias.zero_()
    output = net.draft_training(batch())
    plain = functional.linear(output.hidden, net.lm_head.weight)
    assert torch.equal(output.logits, plain)
    assert not output.confidence.any()


def test_the_correction_reads_the_token_before_and_no_other():
    net = random_net(block_config(**WITH_HEADS))
    example = batch(anchors=(5,))
    changed = example.ids.clone()
    changed[7] = (changed[7] + 1) % VOCABULARY
    other = TrainingBatch(ids=changed, taps=example.taps, anchors=example.anchors, doc=example.doc)
    with torch.no_grad():
        before, after = net.draft_training(example).logits[0], net.draft_training(other).logits[0]
    moved = (before != after).any(-1).tolist()
    assert moved == [False, False, True, False]  # slot 2 drafts token 8 behind token 7


def test_slots_behind_the_end_of_a_text_do_no_harm():
    output = random_net(block_config(**WITH_HEADS)).draft_training(batch(anchors=(LENGTH - 2, LENGTH - 1)))
    assert torch.isfinite(output.logits).all()


def test_the_first_token_of_a_text_can_be_an_anchor():
    output = random_net(block_config()).draft_training(batch(anchors=(0,)))
    assert torch.isfinite(output.logits).all()
