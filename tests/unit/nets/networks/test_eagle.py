from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.nets.networks.eagle import EagleNet, anchors_of
from paradraft.nets.networks.records import TrainingBatch
from support.nets import close, example_of, net_config, tiny_net

METHODS = ["eagle3", "peagle"]


def eagle(method: str, **changes: object) -> EagleNet:
    net = tiny_net(net_config(method, **changes))
    assert isinstance(net, EagleNet)
    return net


def norm(lines: Tensor, weight: Tensor) -> Tensor:
    return weight * lines / (lines.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


def turn(heads: Tensor, positions: Tensor, theta: float) -> Tensor:
    size = heads.shape[-1]
    speeds = theta ** -(torch.arange(0, size, 2) / size)
    angles = (positions[:, None] * speeds)[:, None]
    left, right = heads.chunk(2, dim=-1)
    return torch.cat([left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], dim=-1)


def read_all(net: EagleNet, embedded: Tensor, features: Tensor) -> Tensor:
    """Return the last states of a whole sequence of pairs, each seeing those before: the textbook layer."""
    state, config = net.state_dict(), net.config
    positions = torch.arange(len(features))
    hidden = features
    for number in range(config.num_layers):
        prefix = f"layers.{number}."

        def weight(name: str, prefix: str = prefix) -> Tensor:
            return state[f"{prefix}{name}.weight"]

        inputs = norm(hidden, weight("input_layernorm")) if number else norm(embedded, weight("input_layernorm"))
        if number == 0:
            normed = norm(features, weight("hidden_norm"))
            inputs = torch.cat([inputs, normed], dim=-1)
            hidden = normed if config.norm_before_residual else features
        heads = [(inputs @ weight(f"self_attn.{name}_proj").T).unflatten(-1, (-1, config.head_dim)) for name in "qkv"]
        groups = config.num_heads // config.num_key_heads
        queries = turn(heads[0], positions, config.rope_theta)
        keys = turn(heads[1], positions, config.rope_theta).repeat_interleave(groups, 1)
        values = heads[2].repeat_interleave(groups, 1)
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / config.head_dim**0.5
        hides = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        shares = scores.masked_fill(hides, -torch.inf).softmax(-1)
        hidden = hidden + torch.einsum("hqk,khd->qhd", shares, values).flatten(1) @ weight("self_attn.o_proj").T
        lines = norm(hidden, weight("post_attention_layernorm"))
        gated = functional.silu(lines @ weight("mlp.gate_proj").T) * (lines @ weight("mlp.up_proj").T)
        hidden = hidden + gated @ weight("mlp.down_proj").T
    return hidden


def draft_alone(net: EagleNet, ids: Tensor, taps: Tensor, anchor: int) -> Tensor:
    """Return the head's inputs [K, d] at one anchor of one text, everything computed anew for each slot."""
    table, state = net.embed_tokens.weight, net.state_dict()
    embedded = table[ids[1 : anchor + 1]]
    features = taps[:anchor] @ state["fc.weight"].T
    if net.config.method == "peagle":
        behind = net.config.block_size - 1
        embedded = torch.cat([embedded, table[net.config.mask_token_id].expand(behind, -1)])
        hidden = (state["mask_hidden"].view(1, -1) @ state["fc.weight"].T).expand(behind, -1)
        last = read_all(net, embedded, torch.cat([features, hidden]))[-behind - 1 :]
        return norm(last, state["norm.weight"])
    slots = []
    for slot in range(1, net.config.block_size + 1):
        slots.append(read_all(net, embedded, features)[-1])
        token = ids[min(anchor + slot, len(ids) - 1)]
        embedded, features = torch.cat([embedded, table[token][None]]), torch.cat([features, slots[-1][None]])
    return norm(torch.stack(slots), state["norm.weight"])


@pytest.mark.parametrize("changes", [{"num_layers": 1}, {"num_layers": 2}, {"norm_before_residual": True}], ids=str)
@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_all_anchors_at_once_draft_what_each_drafts_alone(method: str, changes: dict[str, object]) -> None:
    net = eagle(method, **changes)
    example = example_of(net.config, (9, 14), [1, 5, 8, 10, 17, 22])
    output = net.draft_training(example)
    for place, anchor in enumerate(example.anchors.tolist()):
        text = slice(0, 9) if anchor < 9 else slice(9, 23)
        alone = draft_alone(net, example.ids[text], example.taps[text], anchor - text.start)
        inside = min(net.config.block_size, text.stop - anchor)  # slots behind the end of a text mean nothing
        assert close(output.hidden[place, :inside], alone[:inside])
        assert close(output.logits[place, :inside], alone[:inside] @ net.lm_head.weight.T, 1e-3)


@torch.no_grad()
def test_an_anchor_sees_neither_later_tokens_nor_its_own_tap_nor_other_texts() -> None:
    for method in METHODS:
        net = eagle(method)
        example = example_of(net.config, (8, 12), [13])
        changed = replace(example, taps=example.taps.clone())
        changed.taps[13:] = 7.0
        changed.taps[:8] = -3.0
        assert torch.equal(net.draft_training(changed).logits, net.draft_training(example).logits)
        changed.taps[12] += 1.0
        assert not close(net.draft_training(changed).logits, net.draft_training(example).logits)


@torch.no_grad()
def test_a_tap_shifted_by_one_token_changes_every_slot() -> None:
    for method in METHODS:
        net = eagle(method)
        example = example_of(net.config, (20,), [9])
        shifted = replace(example, taps=example.taps.roll(1, 0))
        difference = net.draft_training(shifted).logits - net.draft_training(example).logits
        assert bool((difference.abs().amax(-1) > 1e-2).all())


@torch.no_grad()
def test_parallel_slots_do_not_know_the_tokens_between_and_chained_ones_do() -> None:
    for method, knows in (("eagle3", True), ("peagle", False)):
        net = eagle(method)
        example = example_of(net.config, (20,), [9])
        changed = replace(example, ids=example.ids.clone())
        changed.ids[10] = (changed.ids[10] + 1) % 90
        before, after = net.draft_training(example).logits, net.draft_training(changed).logits
        assert torch.equal(before[:, 0], after[:, 0])
        assert torch.equal(before[:, 1:], after[:, 1:]) is not knows


@torch.no_grad()
def test_training_time_test_is_drafting_at_every_token() -> None:
    net = eagle("eagle3")
    example = example_of(net.config, (5, 7), [3])
    anchors = anchors_of(example.doc)
    assert anchors.tolist() == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert close(net.ttt_training(example).logits[2:3], net.draft_training(example).logits)


def cod(net: EagleNet, example: TrainingBatch, seed: int = 3):
    return net.cod_training(example, generator=torch.Generator().manual_seed(seed), ratio=0.7, least_ratio=0.2)


@torch.no_grad()
def test_dropped_tokens_leave_the_other_slots_as_they_are() -> None:
    net = eagle("peagle", markov_rank=4)
    example = example_of(net.config, (30, 20), [])
    example = replace(example, anchors=anchors_of(example.doc))
    found, full = cod(net, example), net.draft_training(example)
    rows = torch.searchsorted(example.anchors, found.anchors)
    assert close(found.output.logits, full.logits[rows, found.depths])


def test_conditional_drop_token_keeps_ever_fewer_slots_and_no_gap_before_one() -> None:
    net = eagle("peagle")
    example = example_of(net.config, (60, 40), [])
    example = replace(example, anchors=anchors_of(example.doc))
    found = cod(net, example)
    kept = [set(found.anchors[found.depths == depth].tolist()) for depth in range(4)]
    assert len(kept[0]) == 98
    assert [len(each) for each in kept[1:]] == [int((98 - depth) * 0.7**depth) for depth in (1, 2, 3)]
    assert kept[0] > kept[1] > kept[2] > kept[3]
    ends = found.anchors + found.depths
    assert bool((example.doc[ends.clamp(max=99)] == example.doc[found.anchors]).all())
    assert cod(net, example).anchors.tolist() == found.anchors.tolist()
    assert cod(net, example, seed=4).anchors.tolist() != found.anchors.tolist()


def test_slots_that_depend_on_each_other_cannot_be_dropped() -> None:
    net = eagle("eagle3")
    with pytest.raises(ProtocolError, match="eagle3"):
        cod(net, example_of(net.config, (9,), [3]))


@pytest.mark.parametrize("method", METHODS)
def test_an_anchor_without_a_token_before_it_is_refused(method: str) -> None:
    net = eagle(method)
    for anchor in (0, 4):
        with pytest.raises(ProtocolError, match="first token"):
            net.draft_training(example_of(net.config, (4, 5), [anchor]))


@pytest.mark.parametrize("method", METHODS)
def test_every_weight_learns_from_every_depth_that_reads_it(method: str) -> None:
    net = eagle(method, markov_rank=4 if method == "peagle" else 0)
    for slot in range(1, net.config.block_size):
        net.zero_grad()
        net.draft_training(example_of(net.config, (20,), [4, 9])).logits[:, slot].square().sum().backward()
        still = [name for name, each in net.named_parameters() if each.grad is None or not each.grad.abs().sum() > 0]
        assert not still


def test_the_tables_of_the_target_are_frozen_and_names_are_those_of_the_checkpoints() -> None:
    net = eagle("peagle")
    assert net.num_trainable == sum(
        [32 * 96, 96, 4 * 32 + 32 + 32, 2 * 3 * 32 * 48, (32 + 16 + 16) * (64 + 32), 2 * 32 * 32]
    )
    assert not net.lm_head.weight.requires_grad
    names = {name for name in net.state_dict() if "layers.1" not in name and "mlp" not in name}
    assert names == {
        "mask_hidden",
        "fc.weight",
        "norm.weight",
        "lm_head.weight",
        "d2t",
        "t2d",
        *(f"layers.0.{name}.weight" for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")),
        *(f"layers.0.self_attn.{name}_proj.weight" for name in "qkvo"),
    }
    assert "layers.1.hidden_norm.weight" not in net.state_dict()
