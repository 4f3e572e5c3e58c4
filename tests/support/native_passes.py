"""Small models of every kind for the native decode core, and passes over them bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.models.decoder_config import DecoderConfig, read_decoder_config
from paradraft.models.rope_frequencies import rope_frequencies
from paradraft.models.tiny import tiny_config, tiny_tensors
from paradraft.native.executor import Executor
from paradraft.native.library import find_library, load_library
from paradraft.native.packing import PackedMatrix, pack
from paradraft.native.records import PassInput, PassOutput
from paradraft.native.weights import LayerWeights, ModelWeights

INSTRUCTION_SETS = load_library().instruction_sets if find_library() else ()
KINDS = ("float32", "bfloat16", "int8", "int4")
# Every size is odd to 16, the width of a panel, and to 32, the width of a scale.
ODD = {"hidden_size": 52, "intermediate_size": 150, "head_dim": 10, "num_hidden_layers": 2}


def native_weights(config: Mapping[str, object], tensors: Mapping[str, torch.Tensor], kind: str) -> ModelWeights:
    """Return the model of a Hugging Face configuration and its tensors, packed as one kind."""
    decoder = read_decoder_config(config)

    def plain(name: str) -> FloatArray:
        return np.ascontiguousarray(tensors[name].to(torch.float32).numpy())

    def packed(*names: str) -> PackedMatrix:
        has_bias = f"{names[0]}.bias" in tensors
        bias = np.concatenate([plain(f"{name}.bias") for name in names]) if has_bias else None
        return pack(kind, [plain(f"{name}.weight") for name in names], bias=bias)

    embedding = "model.embed_tokens"
    return ModelWeights(
        num_heads=decoder.num_heads,
        num_key_heads=decoder.num_key_heads,
        head_dim=decoder.head_dim,
        norm_eps=decoder.norm_eps,
        inverse_frequencies=rope_frequencies(
            decoder.rope,
            decoder.head_dim,
            positions=decoder.max_positions,
            trained_positions=decoder.trained_positions,
        ),
        rope_factor=decoder.rope.attention_factor,
        layers=tuple(_layer(decoder, number, plain, packed) for number in range(decoder.num_layers)),
        final_norm=plain("model.norm.weight"),
        head=packed(embedding if decoder.is_tied else "lm_head"),
        embedding=None if decoder.is_tied else plain(f"{embedding}.weight"),
    )


def _layer(
    config: DecoderConfig, number: int, plain: Callable[[str], FloatArray], packed: Callable[..., PackedMatrix]
) -> LayerWeights:
    prefix = f"model.layers.{number}."
    has_norms = config.has_head_norms
    return LayerWeights(
        query_key_value=packed(*(f"{prefix}self_attn.{name}_proj" for name in "qkv")),
        output=packed(f"{prefix}self_attn.o_proj"),
        gate=packed(f"{prefix}mlp.gate_proj"),
        up=packed(f"{prefix}mlp.up_proj"),
        down=packed(f"{prefix}mlp.down_proj"),
        input_norm=plain(f"{prefix}input_layernorm.weight"),
        inner_norm=plain(f"{prefix}post_attention_layernorm.weight"),
        query_norm=plain(f"{prefix}self_attn.q_norm.weight") if has_norms else None,
        key_norm=plain(f"{prefix}self_attn.k_norm.weight") if has_norms else None,
        window=config.windows[number],
        has_rope=config.has_rope[number],
    )


def tiny_weights(family: str, kind: str, changes: Mapping[str, object] | None = None) -> ModelWeights:
    """Return a tiny model of a family with random weights, the same every time."""
    config = tiny_config(family, changes)
    return native_weights(config, tiny_tensors(config, seed=3), kind)


@dataclass(frozen=True)
class Row:
    """What one row feeds, and where it lies."""

    tokens: Sequence[int]
    slots: Sequence[int]
    context: Sequence[int] = ()  # slots
    parents: Sequence[int] | None = None  # None: one token after the other


@dataclass
class Bits:
    """Everything a token leaves behind, to compare bit by bit."""

    logits: FloatArray
    hidden: FloatArray  # [taps, C]
    entropy: FloatArray  # [layers, H]

    def assert_same(self, other: Bits, what: str) -> None:
        for name in ("logits", "hidden", "entropy"):
            ours, theirs = getattr(self, name), getattr(other, name)
            assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)), f"{name} of {what} differ"


@dataclass
class Runner:
    """Feeds rows and hands back the bits of every token."""

    executor: Executor
    num_layers: int
    passes: int = field(default=0)

    def feed(self, rows: Sequence[Row]) -> list[list[Bits]]:
        """Run one pass and return the bits of the rows' tokens."""
        given = pass_input(rows, hidden=range(-1, self.num_layers), entropy=range(self.num_layers))
        output = self.executor.run(given)
        self.passes += 1
        bits = [bits_of(output, token) for token in range(len(given.tokens))]
        return [bits[first:stop] for first, stop in zip(given.row_starts, given.row_starts[1:], strict=False)]


def bits_of(output: PassOutput, token: int) -> Bits:
    """Return copies of what a pass with every token scored left of one."""
    return Bits(
        logits=output.logits[token].copy(),
        hidden=np.stack([layer[token] for layer in output.hidden.values()]),
        entropy=np.stack([layer[token] for layer in output.entropies.values()]),
    )


def pass_input(
    rows: Sequence[Row],
    *,
    scored: Sequence[int] | None = None,
    hidden: Sequence[int] = (),
    entropy: Sequence[int] = (),
) -> PassInput:
    """Return the pass of some rows; all tokens are scored unless some are named."""
    starts = starts_of([len(row.tokens) for row in rows])
    parents = [_parents(row) for row in rows]
    return PassInput(
        row_starts=starts,
        tokens=_joined([row.tokens for row in rows]),
        positions=_joined([_positions(row, line) for row, line in zip(rows, parents, strict=True)]),
        slots=_joined([row.slots for row in rows]),
        parents=_joined(parents),
        context_starts=starts_of([len(row.context) for row in rows]),
        context_slots=_joined([row.context for row in rows]),
        scored=ints(range(int(starts[-1]))) if scored is None else ints(scored),
        hidden_layers=ints(list(hidden)),
        entropy_layers=ints(list(entropy)),
    )


def _parents(row: Row) -> Sequence[int]:
    return range(-1, len(row.tokens) - 1) if row.parents is None else row.parents


def _positions(row: Row, parents: Sequence[int]) -> list[int]:
    positions: list[int] = []
    for parent in parents:
        positions.append(len(row.context) if parent < 0 else positions[parent] + 1)
    return positions


def _joined(parts: Sequence[Sequence[int]]) -> IntArray:
    return ints([value for part in parts for value in part])
