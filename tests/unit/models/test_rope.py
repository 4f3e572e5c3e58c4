from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from paradraft.core.errors import ModelError
from paradraft.models.rope import Rotation, inverse_frequencies, rotate
from paradraft.models.rope_config import RopeConfig, read_rope

HEAD_DIM, POSITIONS = 32, 512
KINDS: dict[str, dict[str, object]] = {
    "default": {"rope_type": "default", "rope_theta": 5e5},
    "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128},
    "yarn with its own factors": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 20.0,
        "beta_slow": 2.0,
        "attention_factor": 1.3,
        "truncate": False,
    },
    "yarn with two scales": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "mscale": 0.7,
        "mscale_all_dim": 1.1,
    },
}


def theirs(parameters: dict[str, object]) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=4 * HEAD_DIM,
        num_attention_heads=4,
        head_dim=HEAD_DIM,
        max_position_embeddings=POSITIONS,
        rope_parameters=dict(parameters),
    )


def ours(parameters: dict[str, object]) -> RopeConfig:
    return read_rope({"rope_parameters": parameters}, default_theta=1e4, positions=POSITIONS)


def frequencies(rope: RopeConfig, positions: int = POSITIONS) -> torch.Tensor:
    return inverse_frequencies(rope, HEAD_DIM, positions=positions, trained_positions=POSITIONS)


@pytest.mark.parametrize("parameters", KINDS.values(), ids=KINDS.keys())
@pytest.mark.filterwarnings("ignore")
def test_cosines_and_sines_are_those_of_transformers(parameters: dict[str, object]):
    rope = ours(parameters)
    positions = torch.tensor([0, 1, 7, 127, 128, 511])
    cos, sin = LlamaRotaryEmbedding(theirs(parameters))(torch.zeros(1), positions[None])
    got_cos, got_sin = Rotation(frequencies(rope), attention_factor=rope.attention_factor, dtype=torch.float32).at(
        positions
    )
    torch.testing.assert_close(got_cos[:, 0], cos[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(got_sin[:, 0, HEAD_DIM // 2 :], sin[0, :, HEAD_DIM // 2 :], rtol=0, atol=1e-4)
    torch.testing.assert_close(got_sin[:, 0, : HEAD_DIM // 2], -sin[0, :, : HEAD_DIM // 2], rtol=0, atol=1e-4)


def test_dynamic_frequencies_are_fixed_for_the_longest_context_served():
    """Keys in the cache, and keys shared by a prefix, must not depend on how long the text becomes."""
    parameters = KINDS["dynamic"]
    longer, _ = ROPE_INIT_FUNCTIONS["dynamic"](theirs(parameters), seq_len=4 * POSITIONS)
    torch.testing.assert_close(frequencies(ours(parameters), 4 * POSITIONS), longer)
    torch.testing.assert_close(frequencies(ours(parameters), POSITIONS // 2), frequencies(ours(parameters)))


def test_rotation_turns_the_pairs_half_a_head_apart():
    rotation = Rotation(torch.tensor([1.0, 0.1]), attention_factor=1.0, dtype=torch.float64)
    heads = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]], dtype=torch.float64)
    angle = torch.tensor([2.0, 0.2], dtype=torch.float64)
    first, second = heads[0, 0, :2], heads[0, 0, 2:]
    expected = torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()])
    torch.testing.assert_close(rotate(heads, rotation.at(torch.tensor([2])))[0, 0], expected, rtol=0, atol=1e-6)


def test_both_generations_of_configuration_mean_the_same():
    older = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}
    newer = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}
    assert read_rope(older, default_theta=1.0, positions=64) == read_rope(newer, default_theta=1.0, positions=64)
    assert read_rope({"rope_theta": 7.0}, default_theta=1.0, positions=64) == RopeConfig(kind="default", theta=7.0)
    assert read_rope({"rope_scaling": None}, default_theta=3.0, positions=64).theta == 3.0


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"rope_type": "longrope", "factor": 2.0}, "longrope"),
        ({"type": "mrope"}, "mrope"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "linear", "factor": 0}, "factor=0"),
        ({"rope_type": "linear", "factor": float("nan")}, "nan"),
        ({"rope_type": "linear", "factor": "2"}, "'2'"),
        ({"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0}, "low_freq_factor"),
        ({"rope_theta": True}, "rope_theta=True"),
        ("yarn", "rope_scaling='yarn'"),
    ],
)
def test_settings_that_cannot_be_right_are_named(parameters: object, named: str):
    with pytest.raises(ModelError, match=named):
        read_rope({"rope_scaling": parameters}, default_theta=1e4, positions=64)
