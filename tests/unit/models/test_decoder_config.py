from __future__ import annotations

import pytest
from transformers import CONFIG_MAPPING

from paradraft.core.errors import ModelError
from paradraft.models.decoder_config import read_decoder_config, why_unsupported
from paradraft.models.families import FAMILIES
from paradraft.models.tiny import tiny_config


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_silent_configurations_mean_what_transformers_assumes(family: str):
    """Files may leave out what equals the default of their architecture."""
    stated = {"vocab_size": 32, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5}
    stated |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
    theirs = CONFIG_MAPPING[family](**stated)
    ours = read_decoder_config({"model_type": family, **stated})
    assert ours.head_dim == (getattr(theirs, "head_dim", None) or 16)
    assert ours.is_tied == theirs.tie_word_embeddings
    assert ours.norm_eps == theirs.rms_norm_eps
    assert ours.rope.theta == theirs.rope_parameters["rope_theta"]
    kinds = getattr(theirs, "layer_types", None) or ["sliding_attention"] * 5
    window = getattr(theirs, "sliding_window", None)
    assert ours.windows == tuple(window if kind == "sliding_attention" else None for kind in kinds)
    assert ours.has_rope == tuple(bool(flag) for flag in getattr(theirs, "no_rope_layers", [1] * 5))


@pytest.mark.parametrize(
    ("family", "changes", "windows"),
    [
        ("mistral", {"sliding_window": None}, (None, None, None)),
        ("mistral", {"sliding_window": 7}, (7, 7, 7)),
        ("qwen2", {"use_sliding_window": False}, (None, None, None)),
        ("qwen2", {"sliding_window": 7, "max_window_layers": 2}, (None, None, 7)),
        ("qwen2", {"sliding_window": 7, "max_window_layers": 0}, (7, 7, 7)),
        (
            "qwen3",
            {
                "use_sliding_window": True,
                "sliding_window": 7,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            },
            (7, None, 7),
        ),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 7}, (None, None, 7)),
        ("llama", {"sliding_window": 7}, (None, None, None)),
    ],
)
def test_windows_by_layer(family: str, changes: dict[str, object], windows: tuple[int | None, ...]):
    assert read_decoder_config(tiny_config(family, changes)).windows == windows


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"model_type": None}, "None"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "0.25"),
    ],
)
def test_other_architectures_are_told_apart_before_anything_is_built(changes: dict[str, object], named: str):
    config = tiny_config("llama", changes)
    reason = why_unsupported(config)
    assert reason is not None
    assert named in reason
    with pytest.raises(ModelError, match=named):
        read_decoder_config(config)


@pytest.mark.parametrize("family", FAMILIES)
def test_supported_architectures_have_no_reason_against_them(family: str):
    assert why_unsupported(tiny_config(family)) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"vocab_size": "32"}, "vocab_size='32'"),
        ({"hidden_size": 64.0}, "hidden_size=64.0"),
        ({"num_hidden_layers": True}, "num_hidden_layers=True"),
        ({"num_hidden_layers": None}, "num_hidden_layers=None"),
        ({"max_position_embeddings": -1}, "max_position_embeddings=-1"),
        ({"intermediate_size": 2**31}, "intermediate_size=2147483648"),
        ({"num_key_value_heads": 4}, "num_key_value_heads=4"),
        ({"head_dim": 7}, "head_dim=7"),
        ({"head_dim": None, "num_attention_heads": 5, "num_key_value_heads": 5}, "multiple of num_attention_heads=5"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps='small'"),
        ({"rms_norm_eps": 0}, "rms_norm_eps=0"),
        ({"attention_bias": 1}, "attention_bias=1"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings='no'"),
        ({"rope_scaling": {"type": "su"}}, "rope type 'su'"),
    ],
)
def test_values_that_cannot_be_right_are_named(changes: dict[str, object], named: str):
    with pytest.raises(ModelError) as error:
        read_decoder_config(tiny_config("llama", changes))
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("family", "changes", "named"),
    [
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("qwen2", {"layer_types": ["full_attention", "chunked_attention", "full_attention"]}, "chunked_attention"),
        ("smollm3", {"no_rope_layers": [1, 2, 0]}, "no_rope_layers"),
        ("mistral", {"sliding_window": 0}, "sliding_window=0"),
    ],
)
def test_layer_lists_that_cannot_be_right_are_named(family: str, changes: dict[str, object], named: str):
    with pytest.raises(ModelError, match=named):
        read_decoder_config(tiny_config(family, changes))


def test_a_longer_context_than_trained_can_be_served():
    config = read_decoder_config(tiny_config("llama"), max_positions=4096)
    assert (config.max_positions, config.trained_positions) == (4096, 512)
