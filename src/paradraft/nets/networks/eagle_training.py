"""Drafting at many anchors of a text at once, as the EAGLE family is trained.

Legend: L entries, A anchors, K slots per anchor, E masked slots of all anchors, N key heads, D head size,
d hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.models.rope import Angles
from paradraft.nets.networks.branch_attention import KeyValues, attend_branches
from paradraft.nets.networks.eagle_body import EagleBody
from paradraft.nets.networks.eagle_layer import EagleLayer, LayerInput
from paradraft.nets.networks.eagle_text import EntryText


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaskedSlots:
    """Slots behind the first: slot i belongs to anchors[rows[i]] and lies depths[i] behind its first, 1 .. K - 1."""

    rows: Tensor  # [E]
    depths: Tensor  # [E]

    @staticmethod
    def all_of(anchors: Tensor, num_slots: int) -> MaskedSlots:
        """Return every slot of anchors [A], anchor by anchor."""
        behind = num_slots - 1
        return MaskedSlots(
            rows=torch.arange(len(anchors), device=anchors.device).repeat_interleave(behind),
            depths=torch.arange(1, behind + 1, device=anchors.device).repeat(len(anchors)),
        )


def chain_states(body: EagleBody, text: EntryText, anchors: Tensor, tokens: Tensor) -> Tensor:
    """Return the last states [A, K, d] of EAGLE-3's chains, tokens [A, K] being those before each slot.

    The first slot reads the anchor's entry. Slot k reads token anchor + k with the state of slot k - 1, one
    position on, and sees the entries up to the anchor's and its own chain. That is what serving does, and what the mask
    of training-time test comes to (arXiv 2503.01840, section 3.2).
    """
    entries = text.entries_of(anchors)
    sees = text.sees(entries)
    kept, states = _read(body, text, entries)
    chain = [states]
    own: list[list[KeyValues]] = [[] for _ in kept]
    for slot in range(1, body.config.block_size):
        angles = body.angles(text.positions[entries] + slot)
        embedded = body.embed(tokens[:, slot])
        for number, layer in enumerate(body.decoder_layers):
            read = layer.enter(states) if number else layer.enter_pair(embedded, states)
            own[number].append(layer.keys_and_values(read, angles))
            states = _step(layer, read, angles, kept[number], sees, own[number])
        chain.append(states)
    return torch.stack(chain, dim=1)


def parallel_states(body: EagleBody, text: EntryText, anchors: Tensor, slots: MaskedSlots) -> tuple[Tensor, Tensor]:
    """Return P-EAGLE's last states of the first slots [A, d] and of the masked ones [E, d].

    A masked slot sees the entries up to its anchor's and the masked slots of its anchor up to itself.
    """
    entries = text.entries_of(anchors)
    sees, num_behind = text.sees(entries), body.config.block_size - 1
    kept, first = _read(body, text, entries)
    if not len(slots.rows):
        return first, first.new_zeros(0, first.shape[1])
    places = slots.rows * num_behind + slots.depths - 1
    angles = body.angles(text.positions[entries[slots.rows]] + slots.depths)
    embedded, states = body.masked(len(places))
    for number, layer in enumerate(body.decoder_layers):
        read = layer.enter(states) if number else layer.enter_pair(embedded, states)
        keys, values = layer.keys_and_values(read, angles)
        queries = layer.self_attn.queries(read.normed, angles)
        grid = [_spread(part, places, len(entries), num_behind) for part in (queries, keys, values)]
        order = torch.ones(num_behind, num_behind, dtype=torch.bool, device=sees.device).tril()
        mixed = attend_branches(grid[0], kept[number], (grid[1], grid[2]), sees=sees, own_sees=order)
        states = layer.finish(read.residual, mixed.flatten(0, 1)[places])
    return first, states


def _spread(lines: Tensor, places: Tensor, num_anchors: int, num_behind: int) -> Tensor:
    """Put lines [E, heads, D] to their places on the grid [A, K - 1, heads, D]; the others stay 0."""
    grid = lines.new_zeros(num_anchors * num_behind, *lines.shape[1:])
    return grid.index_copy(0, places, lines).view(num_anchors, num_behind, *lines.shape[1:])


def _read(body: EagleBody, text: EntryText, wanted: Tensor) -> tuple[list[KeyValues], Tensor]:
    """Read a text: return each layer's keys and values [N, L, D], and the last states of the wanted entries [A, d]."""
    angles = body.angles(text.positions)
    kept: list[KeyValues] = []
    states = text.features
    for number, layer in enumerate(body.decoder_layers):
        read = layer.enter(states) if number else layer.enter_pair(text.embedded, states)
        keys, values = layer.keys_and_values(read, angles)
        kept.append((keys.transpose(0, 1), values.transpose(0, 1)))
        is_last = number == body.config.num_layers - 1
        asking = wanted if is_last else text.index
        states = _answer(layer, _pick(read, asking), _turned(angles, asking), kept[number], text.sees(asking))
    return kept, states


def _answer(layer: EagleLayer, read: LayerInput, angles: Angles, kept: KeyValues, sees: Tensor) -> Tensor:
    """Return the layer's outputs for entries that see other entries only."""
    queries = layer.self_attn.queries(read.normed, angles).unsqueeze(1)
    mixed = attend_branches(queries, kept, None, sees=sees, own_sees=None)
    return layer.finish(read.residual, mixed.squeeze(1))


def _step(
    layer: EagleLayer, read: LayerInput, angles: Angles, kept: KeyValues, sees: Tensor, own: list[KeyValues]
) -> Tensor:
    """Return the layer's outputs for one slot more of each chain."""
    queries = layer.self_attn.queries(read.normed, angles).unsqueeze(1)
    keys, values = (torch.stack([pair[part] for pair in own], dim=1) for part in (0, 1))
    mixed = attend_branches(queries, kept, (keys, values), sees=sees, own_sees=None)
    return layer.finish(read.residual, mixed.squeeze(1))


def _pick(read: LayerInput, entries: Tensor) -> LayerInput:
    return LayerInput(read.normed[entries], read.residual[entries])


def _turned(angles: Angles, entries: Tensor) -> Angles:
    return angles[0][entries], angles[1][entries]
