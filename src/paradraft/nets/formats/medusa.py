"""Medusa heads as vLLM reads them: one output matrix for all.

A reduced vocabulary can be said by `token_map`, which vLLM 0.32 refuses to load although its code knows it. So the
matrix is written for the whole vocabulary, with rows of zeros for what is not drafted, and the two maps lie beside it
for us. vLLM renames every key at the top that contains "num" and "layers" or "heads", so there are no others of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.models.stored import StoredTensor, Values
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, Labels, State, refuse_variants
from paradraft.nets.shapes import HEAD, OFFSETS

_IDS = "token_map"
_PREFIX = "medusa_heads."
_OWN_HEADS = "lm_heads."


class MedusaLayout:
    """The target's final norm, which vLLM does not ask for, lies beside the heads."""

    name = "medusa"
    readers = "vLLM"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the model type is Medusa's."""
        return config.get("model_type") == "medusa"

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:  # noqa: ARG002 - the port
        """Return the fields; taps and the target's depth are not among them."""
        refuse_variants(keys, {"medusa_fc_bias": (True,), "logit_scale": (1.0, 1), "original_lm_head": (True,)})
        heads = next((key for key in ("num_heads", "medusa_num_heads") if keys.has(key)), "num_heads")
        layers = next((key for key in ("num_hidden_layers", "medusa_num_layers") if keys.has(key)), "num_hidden_layers")
        vocab = keys.whole("vocab_size", low=1)
        return {
            "method": "medusa",
            "hidden_size": keys.whole("hidden_size", low=1),
            "vocab_size": vocab,
            "draft_vocab_size": keys.whole("truncated_vocab_size", low=1, high=vocab, default=vocab),
            "block_size": keys.whole(heads, low=1),
            "num_res_blocks": keys.whole(layers, low=0),
        }

    def own_names(self, state: State, config: NetConfig) -> State:
        """Return the tensors, with offsets instead of ids. Raises ModelError for heads with matrices of their own."""
        state = {name.removeprefix(_PREFIX): tensor for name, tensor in state.items()}
        if f"{_OWN_HEADS}1.weight" in state or (f"{_OWN_HEADS}0.weight" in state and HEAD in state):
            raise ModelError(
                "The Medusa heads have output matrices of their own, which is not supported.",
                remedy="Use heads that share the target's (original_lm_head).",
            )
        if f"{_OWN_HEADS}0.weight" in state:
            state[HEAD] = state.pop(f"{_OWN_HEADS}0.weight")
        return _with_offsets(state, config) if config.is_reduced else state

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network is no plain set of Medusa heads."""
        if config.method != "medusa":
            return f"it is for medusa, and this is {config.method}"
        if not config.is_reduced:
            return "its readers want an output matrix, and a drafter of the whole vocabulary uses the target's own"
        return "it has no place for heads that correct" if config.markov_rank or config.has_confidence else None

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the keys."""
        return {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "num_heads": config.block_size,
            "num_hidden_layers": config.num_res_blocks,
            "medusa_fc_bias": True,
            "original_lm_head": True,
            "torch_dtype": labels.dtype,
        }

    def public_names(self, state: State, config: NetConfig) -> State:
        """Return the tensors, with a row for every token in the output matrix."""
        head = state[HEAD]
        whole = np.zeros((config.vocab_size, config.hidden_size), dtype=head.values.dtype)
        whole[_ids(state[OFFSETS])] = head.values
        return {**state, HEAD: replace(head, values=whole)}


def _with_offsets(state: State, config: NetConfig) -> State:
    """Return the tensors with d2t for token_map. A matrix for all tokens is cut to the named ones, as vLLM does it."""
    if _IDS not in state and OFFSETS not in state:
        return state
    ids = state.pop(_IDS).values.astype(np.int64) if _IDS in state else _ids(state[OFFSETS])
    if ids.ndim != 1 or not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= config.vocab_size:
        raise ModelError("A Medusa head names ids outside the vocabulary.", remedy="Get the folder from its source.")
    order = np.argsort(ids)
    num_rows = state[HEAD].shape[0] if HEAD in state else 0
    if num_rows == config.vocab_size:
        state[HEAD] = state[HEAD].rows(ids[order])
    elif num_rows == len(ids):
        state[HEAD] = state[HEAD].rows(order)
    return {**state, OFFSETS: StoredTensor(values=ids[order] - np.arange(len(ids)))}


def _ids(offsets: StoredTensor) -> Values:
    return offsets.values.reshape(-1).astype(np.int64) + np.arange(offsets.values.size)
