"""EAGLE-3 as SafeAILab, SpecForge and SGLang keep it, and P-EAGLE as Amazon's checkpoints do; vLLM reads both.

Tap ids count hidden states as they ENTER a layer, so id i is the output of layer i - 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from paradraft.nets.config import NetConfig
from paradraft.nets.formats.decoder import read_decoder, why_no_decoder, write_decoder
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, Labels, State, refuse_variants, renamed
from paradraft.nets.shapes import EAGLE_METHODS, EMBEDDING, MASK_HIDDEN

RESIDUAL = "norm_before_residual"
IDS = "eagle_aux_hidden_state_layer_ids"
_ARCHITECTURES = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "PEagleDraftModel")
_FIRST, _OURS = "midlayer.", "layers.0."
_MASK_KEYS = ("mask_token_id", "ptd_token_id", "pard_token")
EAGLE_VARIANTS: Mapping[str, tuple[object, ...]] = {
    "norm_before_fc": (False,),
    "fc_norm": (False,),
    "norm_output": (False,),
}


class EagleLayout:
    """`midlayer` is the first layer; a file with `mask_hidden` is P-EAGLE."""

    name = "eagle"
    readers = "vLLM, SGLang, SpecForge, SafeAILab EAGLE"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the architecture is one of theirs."""
        names = config.get("architectures")
        return "speculators_model_type" not in config and isinstance(names, list) and names[:1] in _listed()

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:
        """Return the fields; the number of the target's layers and the length of a chain are not among them."""
        refuse_variants(keys, EAGLE_VARIANTS)
        inner = keys.inner("eagle_config")
        refuse_variants(inner, {**EAGLE_VARIANTS, "use_aux_hidden_state": (True,)})
        decoder = read_decoder(keys)
        said: Fields = {
            **decoder,
            "method": "peagle" if MASK_HIDDEN in names else "eagle3",
            "has_own_embedding": EMBEDDING in names,
        }
        refuse_variants(keys, {"target_hidden_size": (decoder["hidden_size"],)})
        for place in (inner, keys):
            if place.has(RESIDUAL):
                said[RESIDUAL] = place.flag(RESIDUAL)
        if keys.has("draft_vocab_size"):
            said["draft_vocab_size"] = keys.whole("draft_vocab_size", low=1)
        place = keys if keys.has(IDS) else inner
        if place.has(IDS):
            said["tap_layers"] = outputs(place.wholes(IDS, low=0))
        mask = next((key for key in _MASK_KEYS if keys.has(key)), None)
        return {**said, "mask_token_id": keys.whole(mask, low=0)} if mask else said

    def own_names(self, state: State, config: NetConfig) -> State:
        """Return the tensors with the first layer as layer 0 and the learned state in its usual shape."""
        return shaped_mask(renamed(state, {_FIRST: _OURS}), config)

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network is no EAGLE-3 or P-EAGLE of this kind."""
        return why_no_decoder(config, EAGLE_METHODS, has_head_norms=False)

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the keys of both, with those by which vLLM finds the mask token."""
        ids = entered(config.tap_layers)
        mask = {"ptd_token_id": config.mask_token_id} if config.method == "peagle" else {}
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            **write_decoder(config, "llama"),
            "draft_vocab_size": config.draft_vocab_size,
            "target_hidden_size": config.hidden_size,
            IDS: list(ids),
            "eagle_config": {IDS: list(ids), "use_aux_hidden_state": True},
            **mask,
            **({RESIDUAL: True} if config.norm_before_residual else {}),
            "torch_dtype": labels.dtype,
        }

    def public_names(self, state: State, config: NetConfig) -> State:
        """Return the tensors; EAGLE-3's only layer is called midlayer."""
        return renamed(state, {_OURS: _FIRST}) if config.method == "eagle3" else state


def outputs(entering: tuple[int, ...]) -> tuple[int, ...]:
    """Return our tap ids for ids of hidden states as they enter a layer; 0 is the embedding, for us -1."""
    return tuple(layer - 1 for layer in entering)


def entered(taps: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ids, as they enter a layer, of our taps."""
    return tuple(layer + 1 for layer in taps)


def shaped_mask(state: State, config: NetConfig) -> State:
    """Return the tensors with P-EAGLE's learned state as [1, 1, m * d]; files have it in several shapes."""
    size = config.hidden_size * len(config.tap_layers)
    if MASK_HIDDEN not in state or state[MASK_HIDDEN].values.size != size:
        return state
    return {**state, MASK_HIDDEN: state[MASK_HIDDEN].shaped(1, 1, size)}


def _listed() -> tuple[list[str], ...]:
    return tuple([name] for name in _ARCHITECTURES)
