"""Tensors on their way into and out of a drafter folder."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paradraft.core.errors import ConfigError, ModelError
from paradraft.models.device import DTYPES
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.extras import Extras
from paradraft.nets.formats.layout import State
from paradraft.nets.shapes import EMBEDDING, MASK_EMBEDDING, MEMBERS, OFFSETS, Shape, check_tensors, check_vocabulary

_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


def mask_in_embedding(state: State, config: NetConfig, embedding: Tensor | None) -> tuple[State, Extras]:
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
    table = own.to(mask.dtype, copy=True).contiguous()
    table[config.mask_token_id] = mask
    rest = {name: tensor for name, tensor in state.items() if name != MASK_EMBEDDING}
    return {**rest, EMBEDDING: table}, Extras(has_mask_row=True, copies=frozenset({EMBEDDING} - set(state)))


def without_copies(state: State, config: NetConfig, extras: Extras) -> State:
    """Undo what was added for other engines."""
    if extras.has_mask_row:
        if EMBEDDING not in state or state[EMBEDDING].shape != (config.vocab_size, config.hidden_size):
            raise ModelError(f"{EMBEDDING}, which holds the mask, is missing.", remedy="Export the drafter again.")
        state = {**state, MASK_EMBEDDING: state[EMBEDDING][config.mask_token_id].clone()}
    return {name: tensor for name, tensor in state.items() if name not in extras.copies}


def check_state(
    config: NetConfig, state: Mapping[str, Tensor], origin: str, elsewhere: Mapping[str, Shape] | None = None
) -> None:
    """Raise ModelError unless these are a network's tensors: names, shapes, vocabulary, finite values.

    elsewhere: shapes of tensors that are the target's and not here.
    """
    check_tensors(config, {name: tuple(tensor.shape) for name, tensor in state.items()} | dict(elsewhere or {}), origin)
    check_vocabulary(config, state, origin)
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
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
    offsets = state[OFFSETS].to(torch.int64)
    if MEMBERS in state:
        return {**state, OFFSETS: offsets, MEMBERS: state[MEMBERS].to(torch.bool)}
    members = torch.zeros(config.vocab_size, dtype=torch.bool)
    members[offsets + torch.arange(len(offsets))] = True
    return {**state, OFFSETS: offsets, MEMBERS: members}


def converted(state: Mapping[str, Tensor], dtype: str | None) -> State:
    """Return contiguous copies: files with shared memory are refused."""
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"dtype={dtype!r} is not known.", remedy=f"Choose one of {', '.join(DTYPES)}.")
    kinds = {True: None if dtype is None else DTYPES[dtype], False: None}
    return {
        name: tensor.detach().to("cpu", kinds[tensor.is_floating_point()], copy=True).contiguous()
        for name, tensor in state.items()
    }


def widest_type(state: Mapping[str, Tensor]) -> torch.dtype:
    """Return the type of the largest tensor of numbers."""
    return max((tensor for tensor in state.values() if tensor.is_floating_point()), key=Tensor.numel).dtype


def dtype_of(state: Mapping[str, Tensor]) -> str:
    """Return the type of the largest tensor of numbers, as configuration files call it."""
    return _NAMES.get(widest_type(state), "float32")
