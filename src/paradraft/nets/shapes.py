"""Which tensors a network's file must hold, and their shapes [out, in].

Names are those of the public formats for these methods, so that most layouts only rename a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.models.stored import StoredTensor
from paradraft.nets.config import NetConfig

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
EMBEDDING, HEAD, OFFSETS, MEMBERS = "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"
MASK_EMBEDDING, MASK_HIDDEN = "mask_embedding", "mask_hidden"
FINAL_NORM = "norm.weight"  # of the target, in a Medusa folder of ours
EAGLE_METHODS = ("eagle3", "peagle")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tensors that must be there and tensors that may be, by name."""

    required: Shapes
    optional: Shapes


def wanted_tensors(config: NetConfig) -> Wanted:
    """Return the tensors of a network with this configuration."""
    optional: Shapes = {}
    if config.method == "medusa":
        required = _medusa(config)
        optional[FINAL_NORM] = (config.hidden_size,)
    elif config.method in EAGLE_METHODS:
        required = _eagle(config)
    else:
        required = _block(config)
    required |= _correction(config)
    vocabulary = _vocabulary(config)
    if config.draft_vocab_size < config.vocab_size:
        required |= vocabulary
    else:
        optional |= vocabulary
    if config.has_own_embedding:
        required[EMBEDDING] = (config.vocab_size, config.hidden_size)
    return Wanted(required, optional)


def check_tensors(config: NetConfig, found: Mapping[str, Shape], origin: str) -> None:
    """Raise ModelError naming the first tensor that is missing, of another shape, or that nothing would read."""
    wanted = wanted_tensors(config)
    known = wanted.required | wanted.optional
    missing = [name for name in wanted.required if name not in found]
    if missing:
        raise ModelError(f"{origin}: {missing[0]} is missing{_why(config, missing[0])}.", remedy=_remedy(missing[0]))
    for name, shape in known.items():
        if name in found and found[name] != shape:
            raise ModelError(
                f"{origin}: {name} has shape {list(found[name])}, and the configuration asks for {list(shape)}.",
                remedy="Weights and configuration are not of one drafter; get the folder again from its source.",
            )
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ModelError(
            f"{origin} holds {unknown[0]}, which a {config.method} network of this configuration does not have.",
            remedy="Dropping it would change the drafts; use a drafter of a kind this version reads.",
        )


def check_table(config: NetConfig, name: str, shape: Shape) -> None:
    """Raise ModelError unless a table, EMBEDDING or HEAD, has a row for each target id or each draft id."""
    word, rows = ("embedding", config.vocab_size) if name == EMBEDDING else ("head", config.draft_vocab_size)
    if shape != (rows, config.hidden_size):
        raise ModelError(
            f"The {word} of the target has shape {shape}, the drafter needs {(rows, config.hidden_size)}.",
            remedy="Use the drafter with the target it was made for.",
        )


def check_vocabulary(config: NetConfig, state: Mapping[str, StoredTensor], origin: str) -> None:
    """Raise ModelError unless d2t and t2d describe one ascending set of the target's ids, in their usual types."""
    if OFFSETS not in state:
        return
    offsets, members = state[OFFSETS], state.get(MEMBERS)
    if offsets.is_floating_point or offsets.values.dtype.itemsize < 4:
        raise _bad_ids(origin, f"{OFFSETS} holds {offsets.number_format} where whole numbers belong")
    if offsets.shape != (config.draft_vocab_size,):
        raise _bad_ids(
            origin, f"{OFFSETS} has shape {list(offsets.shape)}, and the draft vocabulary {config.draft_vocab_size} ids"
        )
    ids: list[int] = [index + offset for index, offset in enumerate(offsets.values.tolist())]
    if ids[0] < 0 or ids[-1] >= config.vocab_size or any(low >= high for low, high in pairwise(ids)):
        raise _bad_ids(
            origin,
            f"{OFFSETS} does not lead to ascending ids below {config.vocab_size} (offsets, not ids, belong in it)",
        )
    if members is None:
        return
    marked: list[int] = np.flatnonzero(members.values).tolist()
    if members.shape != (config.vocab_size,) or marked != ids:
        raise _bad_ids(origin, f"{OFFSETS} and {MEMBERS} name different tokens")


def _block(config: NetConfig) -> Shapes:
    width = config.hidden_size
    shapes: Shapes = {
        "fc.weight": (width, width * len(config.tap_layers)),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
    }
    for layer in range(config.num_layers):
        shapes |= _layer(config, f"layers.{layer}", width)
    return shapes | ({MASK_EMBEDDING: (width,)} if config.has_mask_embedding else {})


def _eagle(config: NetConfig) -> Shapes:
    width, taps = config.hidden_size, config.hidden_size * len(config.tap_layers)
    shapes: Shapes = {"fc.weight": (width, taps), "norm.weight": (width,), "layers.0.hidden_norm.weight": (width,)}
    for layer in range(config.num_layers):
        shapes |= _layer(config, f"layers.{layer}", width if layer else 2 * width)
    return shapes | ({MASK_HIDDEN: (1, 1, taps)} if config.method == "peagle" else {})


def _layer(config: NetConfig, prefix: str, inputs: int) -> Shapes:
    """Return a decoder layer; inputs: the width that its attention reads."""
    width, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_key_heads * config.head_dim
    shapes: Shapes = {
        f"{prefix}.input_layernorm.weight": (width,),
        f"{prefix}.post_attention_layernorm.weight": (width,),
        f"{prefix}.self_attn.q_proj.weight": (queries, inputs),
        f"{prefix}.self_attn.k_proj.weight": (keys, inputs),
        f"{prefix}.self_attn.v_proj.weight": (keys, inputs),
        f"{prefix}.self_attn.o_proj.weight": (width, queries),
        f"{prefix}.mlp.gate_proj.weight": (inner, width),
        f"{prefix}.mlp.up_proj.weight": (inner, width),
        f"{prefix}.mlp.down_proj.weight": (width, inner),
    }
    if config.has_head_norms:
        shapes |= {f"{prefix}.self_attn.{name}_norm.weight": (config.head_dim,) for name in "qk"}
    return shapes


def _medusa(config: NetConfig) -> Shapes:
    width = config.hidden_size
    places = [(head, layer) for head in range(config.block_size) for layer in range(config.num_res_blocks)]
    weights = {f"blocks.{head}.layers.{layer}.weight": (width, width) for head, layer in places}
    return {**weights, **{f"blocks.{head}.layers.{layer}.bias": (width,) for head, layer in places}}


def _correction(config: NetConfig) -> Shapes:
    width, rank = config.hidden_size, config.markov_rank
    shapes: Shapes = {}
    if rank:
        shapes["markov_head.markov_w1.weight"] = (config.vocab_size, rank)
        shapes["markov_head.markov_w2.weight"] = (config.draft_vocab_size, rank)
    if rank and config.markov_kind == "gated":
        shapes |= {"markov_head.gate_proj.weight": (rank, width + rank), "markov_head.gate_proj.bias": (rank,)}
    if config.has_confidence:
        read = width + (rank if config.confidence_reads_markov else 0)
        shapes |= {"confidence_head.proj.weight": (1, read), "confidence_head.proj.bias": (1,)}
    return shapes


def _vocabulary(config: NetConfig) -> Shapes:
    return {
        HEAD: (config.draft_vocab_size, config.hidden_size),
        OFFSETS: (config.draft_vocab_size,),
        MEMBERS: (config.vocab_size,),
    }


def _why(config: NetConfig, name: str) -> str:
    if name not in (HEAD, OFFSETS, MEMBERS):
        return ""
    return f", and the drafter speaks only {config.draft_vocab_size} of {config.vocab_size} tokens"


def _remedy(name: str) -> str:
    if name in (OFFSETS, MEMBERS):
        return "Without it nobody knows which token a draft is. Export the drafter again with its vocabulary map."
    return "The file is incomplete; get the folder again from its source."


def _bad_ids(origin: str, problem: str) -> ModelError:
    return ModelError(f"{origin}: {problem}.", remedy="Export the drafter again with its vocabulary map.")
