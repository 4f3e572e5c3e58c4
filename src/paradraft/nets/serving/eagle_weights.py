"""The weights of an EAGLE network laid out for serving, and one pass over new nodes.

Legend: n new tokens, R rows, L entries of a row, J scratch nodes of a row, N key heads, D head size, d hidden size,
m taps, Vd draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.nets.networks.branch_attention import KeyValues
from paradraft.nets.networks.eagle_body import EagleBody
from paradraft.nets.networks.parts import rotation_of
from paradraft.nets.serving.eagle_layer import ServedLayer
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.placed import Placed


class Mixer(Protocol):
    """Who attends to whom in one pass."""

    def mix(self, layer: int, queries: Tensor, kept: KeyValues) -> Tensor:
        """Take in the new tokens' keys and values [n, N, D]; return what queries [n, H, D] gather, [n, H * D]."""
        ...


class ServedEagle:
    """Copies the weights of a network; the tables of the target are shared."""

    def __init__(self, net: EagleBody, place: ServingPlace) -> None:
        self.config = net.config
        self.place = place
        placed = Placed(place)
        self._fc = placed.linear(net.fc)
        self.layers: Sequence[ServedLayer] = [
            ServedLayer(layer, net.config, placed, is_first=number == 0)
            for number, layer in enumerate(net.decoder_layers)
        ]
        self._norm = placed.norm(net.norm)
        self._head = placed.table(net.lm_head.weight)
        self._embedding = net.embed_tokens.weight.to(place.device)
        self._rotation = rotation_of(net.config, dtype=place.dtype, device=place.device)
        self.mask: tuple[Tensor, Tensor] | None = None
        if net.config.method == "peagle":
            embedded, features = net.masked(1)
            self.mask = placed.weight(embedded), placed.weight(features)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of target ids [n], [n, d]."""
        return functional.embedding(tokens, self._embedding).to(self.place.dtype)

    def features(self, taps: Tensor) -> Tensor:
        """Fuse taps [n, m * d] into features [n, d]."""
        fused: Tensor = self._fc(taps.to(self.place.dtype))
        return fused

    def run(self, embedded: Tensor, states: Tensor, positions: Tensor, mixer: Mixer) -> Tensor:
        """Return the last states [n, d] of new tokens: embeddings and features [n, d] at positions [n]."""
        angles = self._rotation.at(positions)
        for number, layer in enumerate(self.layers):
            read = layer.enter(embedded, states)
            queries, keys, values = layer.project(read, angles)
            states = layer.finish(read, mixer.mix(number, queries, (keys, values)))
        return states

    def keep(self, embedded: Tensor, states: Tensor, positions: Tensor, mixer: Mixer) -> KeyValues:
        """Run new tokens through all layers but the last; return what is kept of them there, [n, N, D]."""
        angles = self._rotation.at(positions)
        for number, layer in enumerate(self.layers[:-1]):
            read = layer.enter(embedded, states)
            queries, keys, values = layer.project(read, angles)
            states = layer.finish(read, mixer.mix(number, queries, (keys, values)))
        last = self.layers[-1]
        return last.project_kept(last.enter(embedded, states), angles)

    def head_input(self, states: Tensor) -> Tensor:
        """Return what the head reads of last states [n, d]."""
        return self._norm(states)

    def logits(self, head_input: Tensor) -> Tensor:
        """Return logits [n, Vd] in fp32."""
        logits: Tensor = self._head(head_input)
        return logits.to(torch.float32)
