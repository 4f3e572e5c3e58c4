from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.models.decoder import build_decoder
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.tiny import tiny_config, tiny_tensors

NAME = "model.layers.1.mlp.up_proj.weight"


def build(tensors: dict[str, Tensor], family: str = "llama", dtype: torch.dtype = torch.float32) -> None:
    build_decoder(read_decoder_config(tiny_config(family)), tensors, dtype=dtype, device=torch.device("cpu"))


def tensors_of(family: str = "llama") -> dict[str, Tensor]:
    return tiny_tensors(tiny_config(family), seed=0)


def test_missing_tensors_are_named():
    tensors = tensors_of()
    for name in [name for name in tensors if "down_proj" in name]:
        del tensors[name]
    with pytest.raises(ModelError, match=r"model\.layers\.0\.mlp\.down_proj\.weight"):
        build(tensors)


def test_a_long_list_of_missing_tensors_is_cut_short():
    with pytest.raises(ModelError, match=r"and 2[0-9] more"):
        build({})


def test_foreign_tensors_are_named():
    with pytest.raises(ModelError, match=r"q_norm.*no place"):
        build({**tensors_of(), "model.layers.0.self_attn.q_norm.weight": torch.ones(8)})


def test_biases_the_configuration_does_not_mention_are_not_dropped_in_silence():
    with pytest.raises(ModelError, match=r"q_proj\.bias"):
        build({**tensors_of(), "model.layers.0.self_attn.q_proj.bias": torch.ones(48)})


def test_harmless_leftovers_are_left_out():
    build(
        {
            **tensors_of(),
            "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
            "lm_head.weight": torch.ones(259, 48),
        }
    )


def test_an_untied_head_is_asked_for():
    tensors = tensors_of("mistral")
    del tensors["lm_head.weight"]
    with pytest.raises(ModelError, match="lm_head"):
        build(tensors, "mistral")


def test_a_misshapen_tensor_is_named_with_both_shapes():
    with pytest.raises(ModelError, match=r"up_proj.*\[79, 48\].*\[80, 48\]"):
        build({**tensors_of(), NAME: torch.ones(79, 48)})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", [NAME, "model.embed_tokens.weight", "model.norm.weight"])
def test_values_that_are_not_finite_are_refused_by_name(value: float, name: str):
    tensors = tensors_of()
    tensors[name] = tensors[name].clone()
    tensors[name].view(-1)[3] = value
    with pytest.raises(ModelError, match=name):
        build(tensors)


def test_values_that_overflow_the_chosen_format_are_refused():
    tensors = tensors_of()
    tensors[NAME] = torch.full((80, 48), 1e5)
    build(tensors)
    with pytest.raises(ModelError, match="float16"):
        build(tensors, dtype=torch.float16)
