from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from paradraft.core.errors import ModelError, ProtocolError
from paradraft.nets.networks.medusa import MedusaNet
from support.nets import HIDDEN, close, example_of, net_config, tiny_net


def medusa(**changes: object) -> MedusaNet:
    net = tiny_net(net_config("medusa", **changes))
    assert isinstance(net, MedusaNet)
    return net


@torch.no_grad()
def test_a_fresh_head_says_what_the_targets_own_head_says_of_the_state_before_the_anchor() -> None:
    net = medusa()
    for parameter in net.parameters():
        parameter.zero_()
    weight = torch.linspace(0.5, 1.5, HIDDEN)
    net.use_final_norm(weight)
    example = example_of(net.config, (6, 6), [2, 8])
    states = example.taps[[1, 7]]
    normed = weight * states / (states.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    logits = net.draft_training(example).logits
    for slot in range(net.config.block_size):
        assert close(logits[:, slot], normed @ net.lm_head.weight.T)


@torch.no_grad()
def test_a_head_adds_the_silu_of_its_line_block_after_block() -> None:
    net = medusa(num_res_blocks=2)
    example = example_of(net.config, (6,), [2])
    state = net.state_dict()
    lines = torch.nn.functional.rms_norm(example.taps[1], (HIDDEN,), state["norm.weight"], 1e-5)
    for layer in range(2):
        prefix = f"blocks.3.layers.{layer}."
        changed = state[f"{prefix}weight"] @ lines + state[f"{prefix}bias"]
        lines = lines + changed * torch.sigmoid(changed)
    assert close(net.draft_training(example).hidden[0, 3], lines)


def test_every_head_learns_and_only_from_its_own_slot() -> None:
    net = medusa()
    for slot in range(net.config.block_size):
        net.zero_grad()
        net.draft_training(example_of(net.config, (20,), [4, 9])).logits[:, slot].square().sum().backward()
        moved = {
            name.split(".")[1] for name, each in net.named_parameters() if each.grad is not None and each.grad.any()
        }
        assert moved == {str(slot)}


def test_weights_without_a_final_norm_keep_the_targets() -> None:
    net, other = medusa(), medusa()
    net.use_final_norm(torch.full((HIDDEN,), 3.0))
    net.restore({name: tensor for name, tensor in other.state_dict().items() if name != "norm.weight"})
    assert net.norm.weight.tolist() == [3.0] * HIDDEN
    net.restore({**other.state_dict(), "norm.weight": torch.full((HIDDEN,), 2.0)})
    assert net.norm.weight.tolist() == [2.0] * HIDDEN


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ModelError, match=r"tap_layers=\[1, 3\]"):
        medusa(tap_layers=(1, 3))
    net = medusa()
    with pytest.raises(ModelError, match="final norm"):
        net.use_final_norm(torch.ones(HIDDEN + 1))
    example = example_of(net.config, (4, 5), [4])
    with pytest.raises(ProtocolError, match="first token"):
        net.draft_training(example)
    with pytest.raises(ProtocolError, match="first token"):
        net.draft_training(replace(example, anchors=torch.tensor([0])))


@torch.no_grad()
def test_medusa_carries_causal_correction_and_confidence() -> None:
    net = medusa(markov_rank=4, has_confidence=True)
    example = example_of(net.config, (20,), [4])
    changed = replace(example, ids=example.ids.clone())
    changed.ids[5] = (changed.ids[5] + 1) % 90
    before, after = net.draft_training(example), net.draft_training(changed)
    same = [torch.equal(before.logits[0, slot], after.logits[0, slot]) for slot in range(4)]
    assert same == [True, False, True, True]
    assert before.confidence is not None
    assert before.confidence.shape == (1, 4)
