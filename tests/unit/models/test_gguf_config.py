from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paradraft.core.errors import ModelError
from paradraft.models.gguf.file import read_gguf
from paradraft.models.gguf.rope import llama3_factors
from support.gguf_files import TINY, gguf_tensors, tiny_weights, write_gguf

TENSORS = gguf_tensors(tiny_weights())


def config(
    tmp_path: Path,
    changes: dict[str, object] | None = None,
    *,
    tensors: dict[str, np.ndarray] | None = None,
    architecture: str = "llama",
) -> dict[str, object]:
    metadata = {key.replace("llama.", f"{architecture}."): value for key, value in TINY.items()}
    metadata["general.architecture"] = architecture
    metadata |= {f"{architecture}.{key}": value for key, value in (changes or {}).items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return read_gguf(write_gguf(tmp_path / "a.gguf", metadata, TENSORS if tensors is None else tensors))[0]


def test_a_llama_file_gives_the_configuration_it_was_made_from(tmp_path: Path) -> None:
    assert config(tmp_path) == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "vocab_size": 259,
        "max_position_embeddings": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "rms_norm_eps": 1e-05,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "attention_bias": False,
        "mlp_bias": False,
        "rope_theta": 10000.0,
        "dtype": "bfloat16",
    }


def test_without_an_output_tensor_the_head_is_tied(tmp_path: Path) -> None:
    assert config(tmp_path, tensors=gguf_tensors(tiny_weights(is_tied=True)))["tie_word_embeddings"] is True


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_other_architectures_are_named_for_what_they_are(architecture: str, tmp_path: Path) -> None:
    found = config(tmp_path, architecture=architecture)
    assert found["model_type"] == architecture
    assert found["architectures"] == [f"{architecture.capitalize()}ForCausalLM"]


def test_a_head_size_of_its_own_is_kept(tmp_path: Path) -> None:
    sizes = {"attention.key_length": 32, "attention.value_length": 32, "rope.dimension_count": None}
    assert config(tmp_path, sizes, architecture="qwen3")["head_dim"] == 32


def test_all_heads_are_key_heads_where_the_file_does_not_say(tmp_path: Path) -> None:
    assert config(tmp_path, {"attention.head_count_kv": None})["num_key_value_heads"] == 4


def test_a_llama_file_with_a_window_is_a_mistral(tmp_path: Path) -> None:
    found = config(tmp_path, {"attention.sliding_window": 32})
    assert (found["model_type"], found["sliding_window"]) == ("mistral", 32)


def test_all_biases_together_are_told_and_some_of_them_refused(tmp_path: Path) -> None:
    biases = {f"blk.0.attn_{name}.bias": np.zeros(64, np.float32) for name in ("q", "k", "v", "output")}
    assert config(tmp_path, tensors=TENSORS | biases)["attention_bias"] is True
    del biases["blk.0.attn_output.bias"]
    with pytest.raises(ModelError, match=r"only attn_q.bias, attn_k.bias, attn_v.bias are there"):
        config(tmp_path, tensors=TENSORS | biases)


@pytest.mark.parametrize(
    ("changes", "scaling"),
    [
        ({}, None),
        ({"rope.scaling.type": "none"}, None),
        ({"rope.scale_linear": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {"rope_type": "linear", "factor": 2.0}),
        (
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 32,
                "rope.scaling.yarn_beta_fast": 16.0,
            },
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "beta_fast": 16.0,
                "beta_slow": 1.0,
            },
        ),
    ],
)
def test_rope_scaling_is_translated(
    changes: dict[str, object], scaling: dict[str, object] | None, tmp_path: Path
) -> None:
    assert config(tmp_path, changes).get("rope_scaling") == scaling


def test_llama3_scaling_is_recognised_by_its_factors(tmp_path: Path) -> None:
    factors = llama3_factors(8.0, base=10000.0, head_dim=16).astype(np.float32)
    found = config(tmp_path, tensors=TENSORS | {"rope_freqs.weight": factors})["rope_scaling"]
    assert found == {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def test_llama3_factors_are_those_of_transformers() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    shape = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 131072}
    reference = LlamaConfig(**shape, rope_parameters={"rope_theta": 500000.0, **scaling})
    frequencies = ROPE_INIT_FUNCTIONS["llama3"](reference, "cpu")[0].numpy()
    plain = 500000.0 ** -(np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(plain / llama3_factors(32.0, base=500000.0, head_dim=64), frequencies, rtol=1e-5)


def test_rope_factors_of_another_law_are_refused(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    with pytest.raises(ModelError, match=r"rope_freqs.weight"):
        config(tmp_path, tensors=TENSORS | {"rope_freqs.weight": factors})


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("block_count", None, "llama.block_count=None is not a whole number of at least 1"),
        ("block_count", 0, "llama.block_count=0"),
        ("block_count", 2.5, "llama.block_count=2.5"),
        ("block_count", True, "llama.block_count=True"),
        ("attention.head_count", [4, 4], r"llama.attention.head_count=\[4, 4\]"),
        ("attention.head_count_kv", 3, "is not a divisor of the 4 heads"),
        ("attention.layer_norm_rms_epsilon", float("nan"), "is not a number above 0"),
        ("rope.dimension_count", 8, "is not the size of a head, 16"),
        ("rope.scaling.type", "longrope", "is not one of none, linear, yarn"),
        ("rope.scaling.attn_factor", 1.5, "is not 1.0"),
        ("expert_count", 8, "mixture-of-experts"),
    ],
)
def test_metadata_that_cannot_be_right_is_refused_with_key_and_value(
    key: str, value: object, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=reason):
        config(tmp_path, {key: value})


def test_an_unknown_architecture_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"architecture 'mamba' is not supported.*llama, qwen2, qwen3"):
        config(tmp_path, architecture="mamba")


def test_a_tensor_that_no_supported_model_has_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the tensor blk.0.ssm_a belongs to no supported model"):
        config(tmp_path, tensors=TENSORS | {"blk.0.ssm_a": np.zeros(4, np.float32)})


def test_a_vocabulary_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tensor token_embd.weight"):
        config(tmp_path, tensors={"output_norm.weight": np.zeros(64, np.float32)})
