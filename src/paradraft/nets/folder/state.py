"""Tensors on their way into and out of a drafter folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.models.stored import EVERY, StoredTensor, Table
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.extras import Extras
from paradraft.nets.formats.layout import State
from paradraft.nets.shapes import EMBEDDING, MASK_EMBEDDING, MEMBERS, OFFSETS, Shape, check_tensors, check_vocabulary

_FORMATS = ("float32", "bfloat16", "float16")


def mask_in_embedding(state: State, config: NetConfig, embedding: Table | None) -> tuple[State, Extras]:
    """Write the learned mask into the mask token's row of an embedding table, where other engines look for it."""
    own = state.get(EMBEDDING, embedding)
    if own is None:
        raise ModelError(
            "The drafter has a learned mask embedding, and other engines read it from an embedding table.",
            remedy="Name the target, so that its table can be copied with the mask in it.",
        )
    if own.shape != (config.vocab_size, config.hidden_size):
        raise ModelError(
            f"The target's embedding has shape {list(own.shape)}, the drafter needs "
            f"{[config.vocab_size, config.hidden_size]}.",
            remedy="Name the target that the drafter was trained for.",
        )
    mask = state[MASK_EMBEDDING]
    table = own.rows(EVERY).in_format(mask.number_format)
    values = table.values.copy()
    values[config.mask_token_id] = mask.values
    rest = {name: tensor for name, tensor in state.items() if name != MASK_EMBEDDING}
    return {**rest, EMBEDDING: replace(table, values=values)}, Extras(
        has_mask_row=True, copies=frozenset({EMBEDDING} - set(state))
    )


def without_copies(state: State, config: NetConfig, extras: Extras) -> State:
    """Undo what was added for other engines."""
    if extras.has_mask_row:
        if EMBEDDING not in state or state[EMBEDDING].shape != (config.vocab_size, config.hidden_size):
            raise ModelError(f"{EMBEDDING}, which holds the mask, is missing.", remedy="Export the drafter again.")
        row = state[EMBEDDING].rows(slice(config.mask_token_id, config.mask_token_id + 1))
        state = {**state, MASK_EMBEDDING: row.shaped(config.hidden_size)}
    return {name: tensor for name, tensor in state.items() if name not in extras.copies}


def check_state(
    config: NetConfig, state: Mapping[str, StoredTensor], origin: str, elsewhere: Mapping[str, Shape] | None = None
) -> None:
    """Raise ModelError unless these are a network's tensors: names, shapes, vocabulary.

    elsewhere: shapes of tensors that are the target's and not here.
    """
    check_tensors(config, {name: tensor.shape for name, tensor in state.items()} | dict(elsewhere or {}), origin)
    check_vocabulary(config, state, origin)


def check_finite(state: Mapping[str, StoredTensor], origin: str) -> None:
    """Raise ModelError naming the first tensor that holds an infinite value or none."""
    for name, tensor in state.items():
        if tensor.is_floating_point and tensor.find_not_finite() is not None:
            raise ModelError(
                f"{origin}: {name} has values that are not finite.",
                remedy="Go back to an earlier state of the network.",
            )


def with_members(state: State, config: NetConfig, origin: str) -> State:
    """Return the state with both vocabulary maps in their usual types; some files leave t2d out.

    Raises ModelError if d2t does not lead to ids of the vocabulary.
    """
    if OFFSETS not in state:
        return state
    check_vocabulary(config, state, origin)
    offsets = state[OFFSETS].values.astype(np.int64)
    if MEMBERS in state:
        members = state[MEMBERS].values.astype(np.bool_)
    else:
        members = np.zeros(config.vocab_size, dtype=np.bool_)
        members[offsets + np.arange(len(offsets))] = True
    return {**state, OFFSETS: StoredTensor(values=offsets), MEMBERS: StoredTensor(values=members)}


def widest_type(state: Mapping[str, StoredTensor]) -> str:
    """Return the number format of the largest tensor of fractions."""
    fractions = (tensor for tensor in state.values() if tensor.is_floating_point)
    return max(fractions, key=lambda tensor: tensor.values.size).number_format


def dtype_of(state: Mapping[str, StoredTensor]) -> str:
    """Return the format of the largest tensor of fractions, as configuration files call it."""
    widest = widest_type(state)
    return widest if widest in _FORMATS else "float32"
