from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.models.config_check import check_config
from support.gguf_files import TINY_CONFIG


def test_a_sound_configuration_passes() -> None:
    check_config(TINY_CONFIG, Path("config.json"))


def test_absent_keys_and_null_options_are_for_the_runner_to_judge() -> None:
    check_config({"model_type": "gpt2", "n_embd": 64}, Path("config.json"))
    check_config(TINY_CONFIG | {"head_dim": None, "num_key_value_heads": None}, Path("config.json"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "64"),
        ("hidden_size", 64.0),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", True),
        ("num_attention_heads", -4),
        ("vocab_size", None),
        ("vocab_size", 2**40),
        ("max_position_embeddings", [1]),
        ("num_key_value_heads", 3),
        ("rms_norm_eps", 0),
        ("rope_theta", "10000"),
        ("rope_theta", float("nan")),
        ("model_type", None),
        ("model_type", 3),
    ],
)
def test_a_value_that_cannot_be_right_is_named(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"config.json: {key}=.* is not "):
        check_config(TINY_CONFIG | {key: value}, Path("config.json"))


def test_quantised_folders_are_refused() -> None:
    with pytest.raises(ModelError, match=r"quantised .* GGUF file"):
        check_config(TINY_CONFIG | {"quantization_config": {"quant_method": "gptq"}}, Path("config.json"))


def test_heads_must_divide_the_hidden_size_where_their_size_is_not_given() -> None:
    with pytest.raises(ModelError, match="num_attention_heads=5 is not a divisor of hidden_size=64"):
        check_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 5}, Path("config.json"))
