"""A configuration that cannot be right is refused by the name of its value."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ModelError
from support.drafting_nets import block_config

WRONG = {
    "method": "spark",
    "markov_kind": "rnn",
    "hidden_size": 0,
    "num_heads": 2.0,
    "num_layers": True,
    "num_key_heads": 3,
    "head_dim": 7,
    "norm_eps": 0.0,
    "rope_theta": float("nan"),
    "max_positions": -1,
    "vocab_size": 2**40,
    "draft_vocab_size": 91,
    "block_size": 65,
    "mask_token_id": 90,
    "num_target_layers": 0,
    "markov_rank": -1,
    "has_head_norms": 1,
    "has_confidence": "yes",
    "tap_layers": (),
}


@pytest.mark.parametrize(("name", "value"), WRONG.items(), ids=WRONG.keys())
def test_a_value_that_cannot_be_right_is_named(name: str, value: object):
    with pytest.raises(ModelError, match=f"{name}="):
        block_config(**{name: value}).check()


@pytest.mark.parametrize("taps", [(0, 4), (-2, 1), (1, 1), (0, 1.0)], ids=str)
def test_taps_outside_the_target_or_named_twice_are_refused(taps: tuple):
    with pytest.raises(ModelError, match="tap_layers="):
        block_config(tap_layers=taps).check()


@pytest.mark.parametrize("taps", [(-1,), (3,), (0, 2), (2, 0)], ids=str)
def test_the_embedding_and_every_layer_can_be_tapped(taps: tuple):
    block_config(tap_layers=taps).check()


def test_an_unknown_method_is_refused_with_those_that_are_known():
    with pytest.raises(ModelError, match="dflash, dspark, eagle3, peagle, medusa"):
        block_config(method="qwen").check()


def test_a_correction_that_eagle_would_not_serve_is_refused():
    with pytest.raises(ModelError, match="markov_rank=4"):
        block_config(method="eagle3", markov_rank=4).check()


def test_dflash_feeds_one_input_more_than_it_drafts():
    assert block_config("dflash").num_inputs == 5
    assert block_config("dspark").num_inputs == 4
