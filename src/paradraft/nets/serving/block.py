"""DFlash and DSpark as they serve: context keys and values are cached, a round is one pass over the rows' blocks.

Legend: R rows, n context entries, B inputs of a block, K drafts, L layers, d hidden size, H query heads, N key heads,
D head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.core.arrays import IntArray, join
from paradraft.models.attention import AttentionTerms, attend
from paradraft.models.kv_store import KvView, Slots
from paradraft.models.layout import RowSpan
from paradraft.models.rope import Angles, rotate
from paradraft.nets.networks.block import BlockNet
from paradraft.nets.networks.parts import rotation_of
from paradraft.nets.serving.block_weights import BlockWeights, LayerWeights, read_block
from paradraft.nets.serving.network import ServingNetwork, open_store
from paradraft.nets.serving.place import ServingPlace, as_tensor
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


class BlockNetwork(ServingNetwork[BlockWeights]):
    """Implements drafters.neural.ports.Network over the weights of a block net, which it copies."""

    def __init__(self, net: BlockNet, place: ServingPlace) -> None:
        self._config = config = net.config
        self._first_slot = net.first_slot
        self._rotation = rotation_of(config, dtype=place.dtype, device=place.device)
        self._terms = AttentionTerms(scale=config.head_dim**-0.5)
        self.store = open_store(config, place)
        super().__init__(net, read_block(net, place), place, shift=0, store=self.store)

    def append(self, feed: ContextFeed) -> None:
        """Write the keys and values of new context entries: each depends on its own taps alone."""
        weights = self.opened()
        with torch.inference_mode():
            taps = as_tensor(feed.taps, self._place.device).to(self._place.dtype)
            joined = weights.context(weights.taps_norm(weights.taps(taps)))
            layers = joined.view(len(taps), self._config.num_layers, -1, self._config.head_dim)
            angles = self._rotation.at(as_tensor(feed.positions, self._place.device))
            slots = Slots.of(feed.slots, self._place.device)
            for number, layer in enumerate(weights.layers):
                keys, values = layers[:, number].chunk(2, dim=1)
                normed = keys if layer.key_norm is None else layer.key_norm(keys)
                self.store.append(number, rotate(normed, angles), values, slots)

    def draft(self, feed: DraftFeed) -> Marginals:
        """Fill in the rows' blocks. All inputs of a block run whatever depth is asked for, as in training."""
        weights = self.opened()
        with torch.inference_mode():
            hidden = self._blocks(feed, weights)
            logits = weights.head(hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)
            return self.heads.marginals(logits, hidden, feed)

    def _blocks(self, feed: DraftFeed, weights: BlockWeights) -> Tensor:
        """Return the hidden states of the slots that draft, [R, K, d]."""
        rows, size = len(feed.anchors), self._config.num_inputs
        device = self._place.device
        own = _scratch_of(feed, size)
        spans = _block_spans(feed, own, device)
        slots = Slots.of(join(own), device)
        cache = KvView(self.store, fed=slots, seen=[span.keys for span in spans])
        positions = as_tensor(feed.positions, device)[:, None] + torch.arange(size, device=device)
        angles = self._rotation.at(positions.flatten())
        states = self._inputs(feed, weights)
        for number, layer in enumerate(weights.layers):
            queries = self._project(layer, number, states, slots, (cache, angles))
            states = layer.output.add_to(states, attend(queries, cache, number, spans, self._terms))
            states = layer.down.add_to(states, layer.gate_up(layer.inner_norm(states)))
        drafting = states.view(rows, size, -1)[:, self._first_slot :]
        return weights.norm(drafting.reshape(-1, drafting.shape[-1])).view(drafting.shape)

    def _inputs(self, feed: DraftFeed, weights: BlockWeights) -> Tensor:
        """Return the anchors' embeddings with masks behind them, [R * B, d]."""
        anchors = functional.embedding(as_tensor(feed.anchors, self._place.device), weights.embedding)
        masks = weights.mask.expand(len(anchors), self._config.num_inputs - 1, -1)
        return torch.cat([anchors.to(masks.dtype).unsqueeze(1), masks], dim=1).flatten(0, 1)

    def _project(
        self, layer: LayerWeights, number: int, states: Tensor, slots: Slots, shared: tuple[KvView, Angles]
    ) -> Tensor:
        """Write the layer's keys and values of states [R * B, d] to scratch; return its queries [R * B, H, D]."""
        cache, angles = shared
        heads, key_heads = self._config.num_heads, self._config.num_key_heads
        projected = layer.query_key_value(layer.input_norm(states))
        projected = projected.view(len(states), heads + 2 * key_heads, self._config.head_dim)
        turned = projected.narrow(1, 0, heads + key_heads)
        if layer.query_norm is not None and layer.key_norm is not None:
            normed = (layer.query_norm(turned.narrow(1, 0, heads)), layer.key_norm(turned.narrow(1, heads, key_heads)))
            turned = torch.cat(normed, dim=1)
        turned = rotate(turned, angles)
        values = projected.narrow(1, heads + key_heads, key_heads)
        cache.append(number, turned.narrow(1, heads, key_heads), values, slots)
        return turned.narrow(1, 0, heads)


def _scratch_of(feed: DraftFeed, count: int) -> list[IntArray]:
    """Return the first `count` scratch slots of each row."""
    return [feed.scratch_slots[start : start + count] for start in feed.scratch_starts[:-1].tolist()]


def _block_spans(feed: DraftFeed, own: Sequence[IntArray], device: torch.device) -> tuple[RowSpan, ...]:
    """Return the rows of a pass in which each feeds len(own[r]) tokens that see its context and one another."""
    spans, first = [], 0
    bounds = feed.context_starts.tolist()
    for row, slots in enumerate(own):
        keys = np.concatenate([feed.context_slots[bounds[row] : bounds[row + 1]], slots])
        stop = first + len(slots)
        run = Slots.of(keys, device)
        spans.append(RowSpan(first=first, stop=stop, keys=run, mask=None, is_causal=False, is_folded=True))
        first = stop
    return tuple(spans)
