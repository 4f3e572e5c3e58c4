"""EAGLE-3 and P-EAGLE behind the drafter's port: entries are cached, a round works on scratch tensors of its own.

Legend: R rows, n entries, K drafts, C candidates, N key heads, D head size, d hidden size, Vd draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.models.kv_store import KvStore, Slots
from paradraft.nets.networks.branch_attention import KeyValues, attend_branches
from paradraft.nets.networks.eagle_body import EagleBody
from paradraft.nets.serving.eagle_round import EagleRound, masked_states
from paradraft.nets.serving.eagle_weights import ServedEagle
from paradraft.nets.serving.network import ServingNetwork, open_store
from paradraft.nets.serving.place import ServingPlace, as_tensor
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals
from paradraft.nets.serving.steps import follow_best


class EagleNetwork(ServingNetwork[ServedEagle]):
    """What the two methods share of drafters.neural.ports.Network. It copies the weights."""

    def __init__(self, net: EagleBody, place: ServingPlace) -> None:
        self.ids = net.vocabulary.ids.to(place.device)
        self.store = open_store(net.config, place)
        super().__init__(net, ServedEagle(net, place), place, shift=1, store=self.store)

    def append(self, feed: ContextFeed) -> None:
        """Write the keys and values of new entries."""
        net = self.opened()
        device = net.place.device
        with torch.inference_mode():
            embedded = net.embed(as_tensor(feed.tokens, device))
            features = net.features(as_tensor(feed.taps, device))
            positions = as_tensor(feed.positions, device)
            writer = _Writer(store=self.store, slots=Slots.of(feed.slots, device), spans=_spans(feed, device))
            writer.write(net.config.num_layers - 1, net.keep(embedded, features, positions, writer))


class MaskedNetwork(EagleNetwork):
    """P-EAGLE: implements drafters.neural.ports.Network."""

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what comes next: block_size drafts in one pass, whatever depth is asked for."""
        net = self.opened()
        with torch.inference_mode():
            hidden = net.head_input(masked_states(net, self.store, feed, self.block_size - 1).flatten(0, 1))
            shape = (len(feed.anchors), self.block_size, -1)
            return self.heads.marginals(net.logits(hidden).view(shape), hidden.view(shape), feed)


class ChainNetwork(EagleNetwork):
    """EAGLE-3: implements drafters.neural.ports.Network and nets.serving.steps.StepNetwork."""

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what comes next along the best candidates, one pass each."""
        return follow_best(self.open_round(feed), len(feed.anchors), min(feed.depth, self.block_size))

    def open_round(self, feed: DraftFeed) -> EagleRound:
        """Feed the anchors of a round that goes on step by step."""
        return EagleRound(self.opened(), self.store, self.ids, feed)


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """New entries first .. stop of one row and the slots of its earlier ones."""

    first: int
    stop: int
    context: Slots


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Writer:
    """Implements served_eagle.Mixer: new entries see the row's earlier ones and each other in order."""

    store: KvStore
    slots: Slots
    spans: Sequence[_Span]

    def mix(self, layer: int, queries: Tensor, kept: KeyValues) -> Tensor:
        """See served_eagle.Mixer."""
        self.write(layer, kept)
        parts = [self._attend(layer, span, queries, kept) for span in self.spans]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def write(self, layer: int, kept: KeyValues) -> None:
        """Put keys and values [n, N, D] of a layer into the cache."""
        self.store.append(layer, kept[0], kept[1], self.slots)

    def _attend(self, layer: int, span: _Span, queries: Tensor, kept: KeyValues) -> Tensor:
        keys, values = self.store.read(layer, span.context)
        own = tuple(part[span.first : span.stop].unsqueeze(0) for part in kept)
        count = span.stop - span.first
        order = torch.ones(count, count, dtype=torch.bool, device=queries.device).tril()
        text = keys.squeeze(1), values.squeeze(1)
        part = queries[span.first : span.stop].unsqueeze(0)
        return attend_branches(part, text, (own[0], own[1]), sees=None, own_sees=order).squeeze(0)


def _spans(feed: ContextFeed, device: torch.device) -> list[_Span]:
    starts, bounds = feed.starts.tolist(), feed.context_starts.tolist()
    return [
        _Span(starts[row], starts[row + 1], Slots.of(feed.context_slots[bounds[row] : bounds[row + 1]], device))
        for row in range(len(starts) - 1)
        if starts[row + 1] > starts[row]
    ]
