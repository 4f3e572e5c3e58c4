"""All four as the `speculators` library keeps them; vLLM serves such a folder as it is.

Tap ids count hidden states as they ENTER a layer, for all methods: one more than ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paradraft.nets.config import NetConfig
from paradraft.nets.formats.block import HEAD_NORM, read_heads, write_heads
from paradraft.nets.formats.decoder import read_decoder, why_no_decoder, write_decoder
from paradraft.nets.formats.eagle import EAGLE_VARIANTS, IDS, RESIDUAL, entered, outputs, shaped_mask
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, Labels, State, refuse_variants, renamed
from paradraft.nets.shapes import EAGLE_METHODS, EMBEDDING

VERSION = "0.9.0"  # of the library whose files these are
_KIND = "speculators_model_type"
_BLOCK_IDS = "aux_hidden_state_layer_ids"
_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "eagle3": "Eagle3Speculator",
        "peagle": "PEagleSpeculator",
        "dflash": "DFlashSpeculator",
        "dspark": "DSparkSpeculator",
    }
)


class SpeculatorsLayout:
    """The layer's sizes are in `transformer_layer_config`, the target's name in `speculators_config`."""

    name = "speculators"
    readers = "speculators, vLLM"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the library's own mark is there, of a method known here."""
        return config.get(_KIND) in _CLASSES

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:
        """Return the fields; the number of the target's layers is not among them."""
        method = keys.text(_KIND)
        decoder = read_decoder(keys.inner("transformer_layer_config"))
        refuse_variants(keys, {"target_hidden_size": (decoder["hidden_size"],)})
        said: Fields = {**decoder, "method": method, "has_own_embedding": EMBEDDING in names}
        if keys.has("draft_vocab_size"):
            said["draft_vocab_size"] = keys.whole("draft_vocab_size", low=1)
        if keys.has("mask_token_id"):
            said["mask_token_id"] = keys.whole("mask_token_id", low=0)
        return {**said, **(_read_eagle(keys) if method in EAGLE_METHODS else _read_block(keys, method, names))}

    def own_names(self, state: State, config: NetConfig) -> State:
        """Return the tensors with P-EAGLE's learned state in its usual shape."""
        return shaped_mask(renamed(state, {"midlayer.": "layers.0."}), config)

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network is none of the four in this library's form."""
        is_block = config.method not in EAGLE_METHODS
        return why_no_decoder(config, tuple(_CLASSES), has_head_norms=is_block)

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the keys."""
        is_eagle = config.method in EAGLE_METHODS
        decoder = write_decoder(config, "llama" if is_eagle else "qwen3")
        return {
            _KIND: config.method,
            "architectures": [_CLASSES[config.method]],
            "transformer_layer_config": decoder,
            "draft_vocab_size": config.draft_vocab_size,
            "target_hidden_size": None,
            "tie_word_embeddings": False,
            **(_write_eagle(config) if is_eagle else _write_block(config)),
            "speculators_config": _proposals(config, labels),
            "speculators_version": VERSION,
            "torch_dtype": labels.dtype,
        }

    def public_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the tensors as they are."""
        return state


def _read_eagle(keys: Keys) -> Fields:
    refuse_variants(keys, EAGLE_VARIANTS)
    said: Fields = {"tap_layers": outputs(keys.wholes(IDS, low=0))} if keys.has(IDS) else {}
    said[RESIDUAL] = keys.flag(RESIDUAL, default=False)
    count = _speculative_tokens(keys)
    return said if count is None else {**said, "block_size": count}


def _read_block(keys: Keys, method: str, names: frozenset[str]) -> Fields:
    refuse_variants(keys, {"sliding_window_non_causal": (False, True)})
    from_anchor = keys.flag("sample_from_anchor", default=method == "dspark")
    size = keys.whole("block_size", low=2 - from_anchor)
    heads = read_heads(keys) if method == "dspark" else {}
    if method == "dspark" and not from_anchor:
        raise keys.refusal("sample_from_anchor", from_anchor, "true, the only kind of DSpark supported")
    return {
        **heads,
        # A DFlash that also drafts from the anchor is a DSpark without heads.
        "method": "dspark" if from_anchor else "dflash",
        "tap_layers": outputs(keys.wholes(_BLOCK_IDS, low=0)),
        "block_size": size if from_anchor else size - 1,
        "has_head_norms": HEAD_NORM in names,
    }


def _write_eagle(config: NetConfig) -> dict[str, object]:
    plain = dict.fromkeys(EAGLE_VARIANTS, False)
    mask = {"mask_token_id": config.mask_token_id} if config.method == "peagle" else {}
    owns = {"embed_requires_grad": config.has_own_embedding}
    return {RESIDUAL: config.norm_before_residual, **plain, **owns, IDS: list(entered(config.tap_layers)), **mask}


def _write_block(config: NetConfig) -> dict[str, object]:
    heads = write_heads(config) if config.method == "dspark" else {}
    return {
        "block_size": config.num_inputs,
        _BLOCK_IDS: list(entered(config.tap_layers)),
        "mask_token_id": config.mask_token_id,
        "sample_from_anchor": config.method == "dspark",
        "sliding_window_non_causal": True,
        **heads,
    }


def _proposals(config: NetConfig, labels: Labels) -> dict[str, object]:
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": config.block_size,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    return {
        "algorithm": config.method,
        "default_proposal_method": "greedy",
        "proposal_methods": [proposal],
        "verifier": {"name_or_path": labels.target, "architectures": []},
    }


def _speculative_tokens(keys: Keys) -> int | None:
    methods = keys.inner("speculators_config").several("proposal_methods")
    return methods[0].whole("speculative_tokens", low=1) if methods else None
