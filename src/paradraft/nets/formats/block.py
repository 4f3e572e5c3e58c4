"""DFlash as z-lab keeps it and DSpark as DeepSpec does; vLLM and SGLang read both.

Tap ids are ours: outputs of layers from 0. z-lab's block_size counts the anchor, which drafts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from paradraft.nets.config import NetConfig
from paradraft.nets.formats.decoder import read_decoder, why_no_decoder, write_decoder
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, Labels, State, refuse_variants
from paradraft.nets.shapes import EMBEDDING, MASK_EMBEDDING

HEAD_NORM = "layers.0.self_attn.q_norm.weight"
_INNER = "dflash_config"
_VARIANTS: Mapping[str, tuple[object, ...]] = {
    "causal": (False,),
    "use_swa": (False,),
    "attention_sink_bias": (False,),
    "add_swa_attention_sink_bias": (False,),
    "sample_from_anchor": (False,),
    "attention_value_scale": (1.0, 1),
    "output_multiplier": (1.0, 1),
    "input_embedding_scale": (1.0, 1),
    "final_logit_softcapping": (),
    "conv_kernel_size": (),
    "selector_rank": (),
    "projector_type": ("dflash",),
    "attention_mode": ("gqa",),
    "swa_window_size": (),
}
_INNER_KEYS = {*_VARIANTS, "mask_token_id", "target_layer_ids", "block_size"}


class ZLabLayout:
    """DFlash: settings of the block in `dflash_config`."""

    name = "zlab"
    readers = "vLLM, SGLang, z-lab DFlash"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the architecture is DFlash's."""
        return "speculators_model_type" not in config and config.get("architectures") == ["DFlashDraftModel"]

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:
        """Return all fields."""
        inner = keys.inner(_INNER)
        refuse_variants(inner, _VARIANTS)
        unknown = sorted(name for name in inner.content if name not in _INNER_KEYS)
        if unknown:
            raise inner.refusal(unknown[0], inner.content[unknown[0]], "a setting this version knows")
        place = inner if inner.has("block_size") else keys
        return {
            **read_block(keys, names),
            "method": "dflash",
            "block_size": place.whole("block_size", low=2) - 1,
            "mask_token_id": inner.whole("mask_token_id", low=0),
            "tap_layers": inner.wholes("target_layer_ids", low=-1),
            "num_target_layers": keys.whole("num_target_layers", low=1),
        }

    def own_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the tensors as they are."""
        return state

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network is no DFlash of this kind."""
        return why_no_decoder(config, ("dflash",), has_head_norms=True)

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the keys, and the size of a reduced vocabulary."""
        inner = {"mask_token_id": config.mask_token_id, "target_layer_ids": list(config.tap_layers)}
        return {
            "architectures": ["DFlashDraftModel"],
            **write_decoder(config, "qwen3"),
            "block_size": config.num_inputs,
            _INNER: inner,
            **write_block(config, labels),
        }

    def public_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the tensors as they are."""
        return state


class DeepSpecLayout:
    """DSpark: all settings at the top."""

    name = "deepspec"
    readers = "vLLM, SGLang, DeepSpec"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the architecture is DSpark's on Qwen3 layers."""
        return "speculators_model_type" not in config and config.get("architectures") == ["Qwen3DSparkModel"]

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:
        """Return all fields."""
        refuse_variants(keys, {"dspark_bonus_anchor": (False,), "sample_from_anchor": (True,)})
        return {
            **read_block(keys, names),
            **read_heads(keys),
            "method": "dspark",
            "block_size": keys.whole("block_size", low=1),
            "mask_token_id": keys.whole("mask_token_id", low=0),
            "tap_layers": keys.wholes("target_layer_ids", low=-1),
            "num_target_layers": keys.whole("num_target_layers", low=1),
        }

    def own_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the tensors as they are."""
        return state

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network is no DSpark of this kind."""
        return why_no_decoder(config, ("dspark",), has_head_norms=True)

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the keys."""
        return {
            "architectures": ["Qwen3DSparkModel"],
            **write_decoder(config, "qwen3"),
            "block_size": config.block_size,
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": list(config.tap_layers),
            **write_heads(config),
            **write_block(config, labels),
        }

    def public_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the tensors as they are."""
        return state


def read_block(keys: Keys, names: frozenset[str]) -> Fields:
    """Return the fields of layers, vocabulary and embeddings."""
    said: Fields = {
        **read_decoder(keys),
        "has_head_norms": HEAD_NORM in names,
        "has_mask_embedding": MASK_EMBEDDING in names,
        "has_own_embedding": EMBEDDING in names,
    }
    if keys.has("draft_vocab_size"):
        said["draft_vocab_size"] = keys.whole("draft_vocab_size", low=1)
    return said


def write_block(config: NetConfig, labels: Labels) -> dict[str, object]:
    """Return the keys that both layouts end with."""
    reduced = {"draft_vocab_size": config.draft_vocab_size} if config.is_reduced else {}
    return {
        "num_target_layers": config.num_target_layers,
        "layer_types": ["full_attention"] * config.num_layers,
        **reduced,
        "torch_dtype": labels.dtype,
    }


def read_heads(keys: Keys) -> Fields:
    """Return the fields of the causal correction and of the confidence head."""
    rank = keys.whole("markov_rank", low=0, default=0)
    return {
        "markov_rank": rank,
        "markov_kind": keys.text("markov_head_type", default="vanilla") if rank else "vanilla",
        "has_confidence": keys.flag("enable_confidence_head", default=False),
        "confidence_reads_markov": keys.flag("confidence_head_with_markov", default=True),
    }


def write_heads(config: NetConfig) -> dict[str, object]:
    """Return the keys of the causal correction and of the confidence head."""
    return {
        "markov_rank": config.markov_rank,
        "markov_head_type": config.markov_kind,
        "enable_confidence_head": config.has_confidence,
        "confidence_head_with_markov": config.confidence_reads_markov,
    }
