"""Which foreign architectures can be served, as far as their configuration tells; the others are refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig, PreTrainedModel

from paradraft.core.errors import ModelError

_SERVED_LAYER_TYPES = ("full_attention", "sliding_attention", "attention")
_STATEFUL_LAYER_TYPES = ("linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "mamba2", "recurrent")
_LAYER_TYPE_KEYS = ("layer_types", "layers_block_type", "block_types")
_OTHER_SENSES = ("vision_config", "audio_config", "speech_config", "vq_config")
_LEAST_POSITIONS = 16
_DECODER_ONLY = "Choose a decoder-only text model whose layers all attend to keys and values."
_REPACKAGE = "Choose a safetensors or GGUF file of a known architecture."


def read_foreign_config(config: Mapping[str, object]) -> PreTrainedConfig:
    """Return a config.json as transformers understands it; raise ModelError for what cannot be served."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ModelError("config.json has no model_type, so its architecture is not known.", remedy=_REPACKAGE)
    if kind not in CONFIG_MAPPING:
        raise _unknown(kind, config)
    if config.get("quantization_config") is not None:
        raise ModelError(
            f"{kind}: config.json has a quantization_config, and such weights are not read.",
            remedy="Choose the unquantized weights or a GGUF file.",
        )
    try:
        parsed = CONFIG_MAPPING[kind].from_dict(dict(config))
    except (StrictDataclassError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(
            f"{kind}: config.json cannot be used ({error}).", remedy="Download the model again."
        ) from error
    _refuse_other_shapes(kind, parsed)
    _refuse_layers(kind, parsed)
    return parsed


def architecture_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class of causal language models that has this configuration."""
    found = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    assert isinstance(found, type)
    assert issubclass(found, PreTrainedModel)
    return found


def max_positions(config: PreTrainedConfig) -> int:
    """Return how many positions keep one set of rope frequencies.

    With a `dynamic` or `longrope` rope the frequencies change beyond the trained length, and cached keys would
    keep the old ones; the context ends there.
    """
    longest = getattr(config, "max_position_embeddings", None)
    bounds = [longest] if isinstance(longest, int) and longest > 0 else []
    for rope in _ropes(config):
        if rope.get("rope_type") == "longrope":
            original = rope.get("original_max_position_embeddings")
            bounds += [original] if isinstance(original, int) else []
    if not bounds:
        raise ModelError(
            f"{config.model_type}: config.json does not say how many positions the model has.",
            remedy="Add max_position_embeddings to config.json.",
        )
    if min(bounds) < _LEAST_POSITIONS:
        raise ModelError(
            f"{config.model_type}: a context of {min(bounds)} positions is too short to be of use.",
            remedy=f"Choose a model with at least {_LEAST_POSITIONS} positions.",
        )
    return min(bounds)


def _unknown(kind: str, config: Mapping[str, object]) -> ModelError:
    if config.get("auto_map"):
        return ModelError(
            f"{kind}: the architecture is Python code that comes with the weights, and such code is never run.",
            remedy=_REPACKAGE,
        )
    return ModelError(f"{kind}: the installed transformers does not know this architecture.", remedy=_REPACKAGE)


def _refuse_other_shapes(kind: str, config: PreTrainedConfig) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{kind}: an encoder-decoder model is not served.", remedy=_DECODER_ONLY)
    if any(getattr(config, name, None) is not None for name in _OTHER_SENSES):
        raise ModelError(f"{kind}: a model of images or sound besides text is not served.", remedy=_DECODER_ONLY)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(f"{kind}: not a model that continues a text.", remedy=_DECODER_ONLY)


def _refuse_layers(kind: str, config: PreTrainedConfig) -> None:
    """Refuse layers that keep a running state, or that choose their keys by a rule of their own."""
    types = _layer_types(config)
    stateful = [name for name in types if name in _STATEFUL_LAYER_TYPES]
    if stateful or getattr(architecture_of(config), "_is_stateful", False):
        names = ", ".join(f"{name} ({_numbers(types[name])})" for name in stateful) or kind
        raise ModelError(
            f"{kind}: layers of the type {names} keep a state that cannot be rewound after a rejected draft.",
            remedy=_DECODER_ONLY,
        )
    foreign = [name for name in types if name not in _SERVED_LAYER_TYPES]
    if foreign:
        names = ", ".join(f"{name} ({_numbers(types[name])})" for name in foreign)
        raise ModelError(
            f"{kind}: layers of the type {names} choose the keys they see by a rule that is not served.",
            remedy=_DECODER_ONLY,
        )


def _layer_types(config: PreTrainedConfig) -> dict[str, list[int]]:
    """Return the layer types that the configuration names, each with the numbers of its layers."""
    for key in _LAYER_TYPE_KEYS:
        types = getattr(config, key, None)
        if isinstance(types, Iterable) and not isinstance(types, str):
            found: dict[str, list[int]] = {}
            for layer, name in enumerate(types):
                found.setdefault(str(name), []).append(layer)
            return found
    return {}


def _numbers(layers: list[int]) -> str:
    numbers = [str(layer) for layer in layers]
    return ", ".join(numbers) if len(numbers) <= 4 else f"{', '.join(numbers[:3])} and {len(numbers) - 3} more"


def _ropes(config: PreTrainedConfig) -> list[Mapping[str, object]]:
    """Return the rope parameters: one set, or one for each layer type."""
    ropes = getattr(config, "rope_parameters", None)
    if not isinstance(ropes, Mapping):
        return []
    nested = [rope for rope in ropes.values() if isinstance(rope, Mapping)]
    return nested or [ropes]
