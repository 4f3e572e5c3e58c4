"""One decoder for llama, mistral, qwen2, qwen3, smollm and their kin; configuration values tell them apart.

Legend: T fed tokens, C hidden size, H query heads, N key heads, D head size, F feed-forward size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.models.attention import AttentionTerms, attend, attention_entropy
from paradraft.models.decoder_config import DecoderConfig
from paradraft.models.decoder_names import EMBEDDING, FINAL_NORM, HEAD, check_names, expected_shapes
from paradraft.models.decoder_weights import WeightReader
from paradraft.models.kv_store import KvStore, KvView, LayerCache, Slots
from paradraft.models.layout import PassLayout
from paradraft.models.linear import GatedPair, Kernels, Linear, choose_kernels
from paradraft.models.norms import RmsNorm
from paradraft.models.rope import Angles, Rotation, inverse_frequencies, rotate
from paradraft.models.visibility import Window


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Layer:
    """The parts of one decoder layer."""

    window: Window
    has_rope: bool
    input_norm: RmsNorm
    query_key_value: Linear
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    output: Linear
    inner_norm: RmsNorm
    gate_up: GatedPair
    down: Linear


@dataclass(frozen=True, kw_only=True, slots=True)
class Taps:
    """Which layers' hidden states and attention entropies a pass records; layers count from 0, -1 is the embedding."""

    hidden_layers: Set[int] = frozenset()
    entropy_layers: Set[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassResult:
    """What a pass leaves behind."""

    logits: Tensor  # [S, V] fp32 at the scored positions
    hidden: Mapping[int, Tensor]  # by layer, [T, C]
    entropies: Mapping[int, Tensor]  # by layer, [T, H]


class Decoder:
    """The weights of a model and the pass over them. It keeps nothing between passes."""

    def __init__(
        self,
        config: DecoderConfig,
        *,
        embedding: Tensor,
        layers: tuple[Layer, ...],
        final_norm: RmsNorm,
        head: Linear,
        rotation: Rotation,
        kernels_note: str,
        weight_bytes: int,
    ) -> None:
        self.config = config
        self.dtype, self.device = embedding.dtype, embedding.device
        self.kernels_note = kernels_note
        self.weight_bytes = weight_bytes
        self._embedding = embedding
        self._layers = layers
        self._final_norm = final_norm
        self._head = head
        self._rotation = rotation
        self._terms = AttentionTerms(scale=config.head_dim**-0.5)

    def first_layers(self, count: int) -> Decoder:
        """Return the model that ends behind `count` of its layers, with the same norm and head; nothing is copied."""
        config = self.config
        return Decoder(
            replace(config, num_layers=count, windows=config.windows[:count], has_rope=config.has_rope[:count]),
            embedding=self._embedding,
            layers=self._layers[:count],
            final_norm=self._final_norm,
            head=self._head,
            rotation=self._rotation,
            kernels_note=self.kernels_note,
            weight_bytes=0,
        )

    def run(self, layout: PassLayout, store: KvStore, taps: Taps) -> PassResult:
        """Run one pass: write the cache of the fed tokens, return logits and what taps asks for."""
        hidden: dict[int, Tensor] = {}
        entropies: dict[int, Tensor] = {}
        cache = KvView(store, fed=layout.slots, seen=layout.seen())
        angles = self._rotation.at(layout.positions)
        states = functional.embedding(layout.tokens, self._embedding)
        if -1 in taps.hidden_layers:
            hidden[-1] = states
        for number, layer in enumerate(self._layers):
            queries = self._project(layer, number, states, layout.slots, (cache, angles))
            spans = layout.spans[layer.window]
            if number in taps.entropy_layers:
                entropies[number] = attention_entropy(queries, cache, number, spans, self._terms)
            states = layer.output.add_to(states, attend(queries, cache, number, spans, self._terms))
            states = layer.down.add_to(states, layer.gate_up(layer.inner_norm(states)))
            if number in taps.hidden_layers:
                hidden[number] = states
        return PassResult(logits=self._logits(states, layout), hidden=hidden, entropies=entropies)

    def last_hidden(self, layout: PassLayout, store: KvStore) -> Tensor:
        """Run one pass and return what the head would read at every fed token: the final norm's output, [T, C]."""
        last = self.config.num_layers - 1
        return self._final_norm(self.run(layout, store, Taps(hidden_layers={last})).hidden[last])

    def _project(
        self, layer: Layer, number: int, states: Tensor, slots: Slots, shared: tuple[LayerCache, Angles]
    ) -> Tensor:
        """Write the layer's keys and values of states [T, C] to the cache and return its queries [T, H, D]."""
        cache, angles = shared
        heads, key_heads = self.config.num_heads, self.config.num_key_heads
        projected = layer.query_key_value(layer.input_norm(states))
        projected = projected.view(slots.count, heads + 2 * key_heads, self.config.head_dim)
        turned = projected.narrow(1, 0, heads + key_heads)
        if layer.query_norm is not None and layer.key_norm is not None:
            normed = (layer.query_norm(turned.narrow(1, 0, heads)), layer.key_norm(turned.narrow(1, heads, key_heads)))
            turned = torch.cat(normed, dim=1)
        if layer.has_rope:
            turned = rotate(turned, angles)
        cache.append(
            number, turned.narrow(1, heads, key_heads), projected.narrow(1, heads + key_heads, key_heads), slots
        )
        return turned.narrow(1, 0, heads)

    def _logits(self, states: Tensor, layout: PassLayout) -> Tensor:
        """Return the logits of states [T, C] at the scored positions, fp32 (float64 stays)."""
        scored = states if layout.scored is None else states.index_select(0, layout.scored)
        if not len(scored):
            return torch.empty(0, self.config.vocab_size, device=states.device)
        logits = self._head(self._final_norm(scored))
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def build_decoder(
    config: DecoderConfig, tensors: Mapping[str, Tensor], *, dtype: torch.dtype, device: torch.device
) -> Decoder:
    """Return the decoder over these tensors in Hugging Face names.

    Each is looked up once and converted, so a lazy mapping never holds the whole model twice. Raises ModelError
    naming tensors that are missing, foreign, misshapen or not finite.
    """
    check_names(config, tensors)
    shapes = expected_shapes(config)
    reader = WeightReader(tensors=tensors, shapes=shapes, dtype=dtype, device=device)
    kernels = choose_kernels(dtype, device)
    embedding = reader.read(EMBEDDING)
    head = embedding if config.is_tied else reader.read(HEAD)
    frequencies = inverse_frequencies(
        config.rope, config.head_dim, positions=config.max_positions, trained_positions=config.trained_positions
    )
    return Decoder(
        config,
        embedding=embedding,
        layers=tuple(_build_layer(config, number, reader, kernels) for number in range(config.num_layers)),
        final_norm=RmsNorm(reader.read(FINAL_NORM), config.norm_eps),
        head=kernels.layer(head, None),
        rotation=Rotation(frequencies.to(device), attention_factor=config.rope.attention_factor, dtype=dtype),
        kernels_note=kernels.note,
        weight_bytes=sum(torch.Size(shape).numel() for shape in shapes.values()) * dtype.itemsize,
    )


def _build_layer(config: DecoderConfig, number: int, reader: WeightReader, kernels: Kernels) -> Layer:
    prefix = f"model.layers.{number}."

    def norm(name: str) -> RmsNorm:
        return RmsNorm(reader.read(f"{prefix}{name}.weight"), config.norm_eps)

    def parts(*names: str) -> tuple[Tensor, Tensor | None]:
        weight = reader.read_joined([f"{prefix}{name}.weight" for name in names])
        return weight, reader.read_optional([f"{prefix}{name}.bias" for name in names])

    return Layer(
        window=config.windows[number],
        has_rope=config.has_rope[number],
        input_norm=norm("input_layernorm"),
        query_key_value=kernels.layer(*parts("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        query_norm=norm("self_attn.q_norm") if config.has_head_norms else None,
        key_norm=norm("self_attn.k_norm") if config.has_head_norms else None,
        output=kernels.layer(*parts("self_attn.o_proj")),
        inner_norm=norm("post_attention_layernorm"),
        gate_up=kernels.gated(parts("mlp.gate_proj"), parts("mlp.up_proj")),
        down=kernels.layer(*parts("mlp.down_proj")),
    )
