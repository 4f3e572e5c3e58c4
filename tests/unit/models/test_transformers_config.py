"""Which foreign architectures are refused, and that each refusal names the value and the reason."""

from __future__ import annotations

import pytest
from transformers import CONFIG_MAPPING

from paradraft.core.errors import ModelError
from paradraft.models.foreign.config import max_positions, read_foreign_config
from support.foreign_models import FOREIGN


def config_of(kind: str, **changes: object) -> dict[str, object]:
    return {**CONFIG_MAPPING[kind](**dict(FOREIGN.get(kind, {}))).to_dict(), **changes}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_attention_only_decoders_are_served(kind: str) -> None:
    config = read_foreign_config(config_of(kind))
    assert config.model_type == kind
    assert max_positions(config) == 64


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("mamba", "linear_attention (0, 1, 2 and"),
        ("mamba2", "linear_attention (0, 1, 2 and"),
        ("rwkv", "rwkv"),
        ("jamba", "linear_attention (0, 1, 2 and"),
        ("recurrent_gemma", "linear_attention"),
        ("qwen3_next", "linear_attention"),
        ("nemotron_h", "linear_attention"),
        ("falcon_h1", "hybrid"),
        ("lfm3", "conv"),
        ("minimax", "linear_attention (1, 3, 5 and"),
    ],
)
def test_layers_whose_state_cannot_be_rewound_are_refused_by_type(kind: str, named: str) -> None:
    with pytest.raises(ModelError, match="cannot be rewound after a rejected draft") as refusal:
        read_foreign_config(config_of(kind))
    assert kind in str(refusal.value)
    assert named in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "named"), [("llama4_text", "chunked_attention"), ("glm_moe_dsa", "indexed_attention")]
)
def test_layers_that_choose_keys_by_another_rule_are_refused_by_type(kind: str, named: str) -> None:
    with pytest.raises(ModelError, match="by a rule that is not served") as refusal:
        read_foreign_config(config_of(kind))
    assert named in str(refusal.value)


@pytest.mark.parametrize("kind", ["t5", "bart", "whisper"])
def test_encoder_decoders_are_refused(kind: str) -> None:
    with pytest.raises(ModelError, match=f"{kind}: an encoder-decoder model"):
        read_foreign_config(config_of(kind))


@pytest.mark.parametrize("kind", ["gemma3", "llama4", "qwen3_5", "siglip"])
def test_models_of_images_are_refused(kind: str) -> None:
    with pytest.raises(ModelError, match=f"{kind}: a model of images or sound"):
        read_foreign_config(config_of(kind))


def test_a_model_that_does_not_continue_text_is_refused() -> None:
    with pytest.raises(ModelError, match="vit: not a model that continues a text"):
        read_foreign_config(config_of("vit"))


def test_code_that_comes_with_the_weights_is_never_run() -> None:
    config = {"model_type": "hand_made", "auto_map": {"AutoModelForCausalLM": "modeling.HandMade"}}
    with pytest.raises(ModelError, match=r"hand_made: the architecture is Python code.*never run"):
        read_foreign_config(config)


def test_a_known_architecture_runs_its_built_in_code_whatever_auto_map_says() -> None:
    config = config_of("phi3", auto_map={"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"})
    assert type(read_foreign_config(config)).__module__.startswith("transformers.models.phi3")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "no model_type"),
        ({"model_type": 3}, "no model_type"),
        ({"model_type": "no_such_model"}, "no_such_model: the installed transformers does not know"),
        ({"model_type": "phi3", "quantization_config": {"bits": 4}}, "phi3: .*quantization_config"),
        ({"model_type": "mixtral", "hidden_size": "wide"}, "mixtral: config.json cannot be used"),
    ],
)
def test_bad_configurations_are_refused_with_the_reason(config: dict[str, object], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        read_foreign_config(config)


def test_the_context_ends_where_longrope_would_change_its_frequencies() -> None:
    factors = [1.0] * 4
    rope = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "rope_theta": 10000.0}
    config = config_of(
        "phi3", max_position_embeddings=4096, original_max_position_embeddings=128, rope_parameters=dict(rope)
    )
    assert max_positions(read_foreign_config(config)) == 128


def test_the_context_ends_where_dynamic_rope_would_change_its_frequencies() -> None:
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    config = config_of("olmo", max_position_embeddings=256, rope_parameters=rope)
    assert max_positions(read_foreign_config(config)) == 256


def test_a_model_without_a_stated_context_is_refused() -> None:
    with pytest.raises(ModelError, match=r"bloom: config\.json does not say how many positions"):
        max_positions(read_foreign_config(config_of("bloom")))
