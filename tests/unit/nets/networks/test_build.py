"""Networks are built as their configuration says, and restored from what they save or not at all."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from paradraft.core.errors import ModelError
from paradraft.nets.networks.build import build_net, restore_net
from paradraft.nets.vocabulary import DraftVocabulary
from support.drafting_nets import DRAFTED, SIZE, VOCABULARY, block_config, random_net

FULL = {"draft_vocab_size": VOCABULARY}


@pytest.mark.parametrize(("layers", "taps"), list(product([1, 3, 5], [(0,), (0, 1, 2), (-1, 0, 1, 2, 3)])), ids=str)
def test_any_number_of_layers_goes_with_any_number_of_taps(layers: int, taps: tuple[int, ...]):
    net = random_net(block_config(num_layers=layers, tap_layers=taps))
    assert net.state_dict()["fc.weight"].shape == (SIZE, len(taps) * SIZE)
    assert sum(name.endswith("q_proj.weight") for name in net.state_dict()) == layers


def test_the_targets_tables_stay_as_they_are_and_are_saved_only_where_they_are_the_drafters_own():
    reduced, full = random_net(block_config()), random_net(block_config(**FULL))
    assert {"lm_head.weight", "d2t", "t2d"} <= reduced.state_dict().keys()
    assert not {"lm_head.weight", "embed_tokens.weight", "d2t", "t2d"} & full.state_dict().keys()
    assert "embed_tokens.weight" in random_net(block_config(has_own_embedding=True)).state_dict()
    names = {name for name, _ in reduced.named_parameters()}
    assert not {"lm_head.weight", "embed_tokens.weight"} & names
    assert reduced.num_trainable == sum(weight.numel() for weight in reduced.parameters())


@pytest.mark.parametrize(
    "changes", [{}, FULL, {"markov_rank": 4, "has_confidence": True}, {"has_mask_embedding": True}]
)
def test_a_saved_network_comes_back(changes: dict):
    net = random_net(block_config(**changes))
    embedding = net.embed_tokens.weight
    head = torch.randn(VOCABULARY, SIZE) if net.config.is_reduced else net.lm_head.weight
    again = restore_net(net.config, net.state_dict(), embedding, head)
    state = net.state_dict()
    assert again.state_dict().keys() == state.keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())
    assert torch.equal(again.lm_head.weight, net.lm_head.weight)
    assert torch.equal(again.vocabulary.ids, net.vocabulary.ids)


def test_a_reduced_vocabulary_without_its_map_is_refused():
    net = random_net(block_config())
    for name in ("d2t", "t2d"):
        state = {key: tensor for key, tensor in net.state_dict().items() if key != name}
        with pytest.raises(ModelError, match="d2t or t2d is missing"):
            restore_net(net.config, state, net.embed_tokens.weight, net.embed_tokens.weight)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("fc.weight", lambda _: None, "missing"),
        ("norm.weight", lambda tensor: tensor[:-1], "shape"),
        ("layers.1.mlp.up_proj.weight", lambda tensor: tensor * float("inf"), "not finite"),
        ("layers.2.mlp.up_proj.weight", lambda _: torch.zeros(1), "not known"),
    ],
    ids=["missing", "misshapen", "not finite", "foreign"],
)
def test_weights_that_do_not_fit_are_refused_by_name(name: str, change, reason: str):
    net = random_net(block_config())
    state = dict(net.state_dict())
    changed = change(state.get(name))
    state.pop(name, None)
    if changed is not None:
        state[name] = changed
    with pytest.raises(ModelError, match=reason) as caught:
        restore_net(net.config, state, net.embed_tokens.weight, net.embed_tokens.weight)
    assert name in str(caught.value)


@pytest.mark.parametrize("broken", ["embedding", "head"])
def test_tables_of_another_target_are_refused(broken: str):
    tables = {"embedding": torch.zeros(VOCABULARY, SIZE), "head": torch.zeros(DRAFTED, SIZE)}
    tables[broken] = torch.zeros(VOCABULARY, SIZE + 1)
    vocabulary = DraftVocabulary.of(torch.arange(DRAFTED), VOCABULARY)
    with pytest.raises(ModelError, match=broken):
        build_net(block_config(), tables["embedding"], tables["head"], vocabulary)
