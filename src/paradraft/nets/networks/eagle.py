"""EAGLE-3 (arXiv 2503.01840) and its parallel form P-EAGLE (arXiv 2602.01469).

Entry j of a text joins the target's tap at token j with token j + 1; from the last one, which ends with the anchor, the
network says which token follows. EAGLE-3 goes on by feeding a drafted token with its own last state in place of a tap;
P-EAGLE drafts all slots in one pass, from a mask token and one learned hidden state that stand for what is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paradraft.core.errors import ProtocolError
from paradraft.nets.networks.corrected import slots_of, tokens_before
from paradraft.nets.networks.eagle_body import EagleBody
from paradraft.nets.networks.eagle_text import EntryText, anchors_of
from paradraft.nets.networks.eagle_training import MaskedSlots, chain_states, parallel_states
from paradraft.nets.networks.records import TrainingBatch, TrainingOutput


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SlotOutput:
    """What the network says at single slots, E of them: slot i drafts token anchors[i] + depths[i] + 1."""

    output: TrainingOutput  # tensors begin with E in place of A and K
    anchors: Tensor  # [E] int64
    depths: Tensor  # [E] int64, 0 .. K - 1


class EagleNet(EagleBody):
    """A network of either method and the ways to train it."""

    def draft_training(self, example: TrainingBatch) -> TrainingOutput:
        """Return what is drafted at each anchor, the tokens before each slot taken from the text.

        Raises ProtocolError for an anchor without a token before it in its text, since there is no tap for it.
        """
        hidden = self.hidden_training(example)
        before = tokens_before(example, *slots_of(example, self.config.block_size))
        return self.finish(self.logits(hidden), hidden, before)

    def hidden_training(self, example: TrainingBatch) -> Tensor:
        """Return what the head reads at each anchor's slots, [A, K, d]; raises what draft_training raises."""
        text, count = EntryText.of(self, example), self.config.block_size
        if self.config.method == "peagle":
            slots = MaskedSlots.all_of(example.anchors, count)
            first, masked = parallel_states(self, text, example.anchors, slots)
            states = torch.cat([first.unsqueeze(1), masked.view(len(first), count - 1, -1)], dim=1)
        else:
            before = tokens_before(example, *slots_of(example, count))
            states = chain_states(self, text, example.anchors, before)
        return self.head_input(states)

    def ttt_training(self, example: TrainingBatch) -> TrainingOutput:
        """Return the slots of every token with one before it: EAGLE-3's training-time test on whole texts.

        example.anchors is not read; row a of the output belongs to anchor `anchors_of(example.doc)[a]`.
        """
        return self.draft_training(replace(example, anchors=anchors_of(example.doc)))

    def cod_training(
        self,
        example: TrainingBatch,
        *,
        generator: torch.Generator,
        ratio: float = 0.7,
        least_ratio: float = 0.2,
    ) -> SlotOutput:
        """Return P-EAGLE's slots under conditional drop-token: all first slots, ever fewer of the deeper ones.

        Of the anchors that had a slot at one depth, max(ratio**depth, least_ratio) of all anchors have one at the next,
        if the text goes on so far (arXiv 2602.01469, section 3; algorithms of PARD). Raises ProtocolError for EAGLE-3.
        """
        if self.config.method != "peagle":
            raise ProtocolError(
                f"Slots of {self.config.method} depend on each other and cannot be dropped.",
                remedy="Use draft_training or ttt_training.",
            )
        slots = drop_slots(example, self.config.block_size, ratio, least_ratio, generator)
        first, masked = parallel_states(self, EntryText.of(self, example), example.anchors, slots)
        anchors = torch.cat([example.anchors, example.anchors[slots.rows]])
        depths = torch.cat([torch.zeros_like(example.anchors), slots.depths])
        hidden = self.head_input(torch.cat([first, masked]))
        output = self.finish(self.logits(hidden), hidden, tokens_before(example, anchors, depths))
        return SlotOutput(output=output, anchors=anchors, depths=depths)


def drop_slots(
    example: TrainingBatch, num_slots: int, ratio: float, least_ratio: float, generator: torch.Generator
) -> MaskedSlots:
    """Draw which anchors keep a masked slot at each depth; who has one has all before it."""
    alive = torch.arange(len(example.anchors), device=example.anchors.device)
    rows, depths = [], []
    for depth in range(1, num_slots):
        ends = example.anchors[alive] + depth + 1
        is_inside = ends < len(example.doc)
        is_inside &= example.doc[ends.clamp(max=len(example.doc) - 1)] == example.doc[example.anchors[alive]]
        alive = alive[is_inside]
        count = int(max(len(example.anchors) - depth, 0) * max(ratio**depth, least_ratio))
        order = torch.randperm(len(alive), generator=generator)[:count]
        alive = alive[order.sort().values.to(alive.device)]
        rows.append(alive)
        depths.append(torch.full_like(alive, depth))
    if not rows:
        return MaskedSlots(rows=alive[:0], depths=alive[:0])
    return MaskedSlots(rows=torch.cat(rows), depths=torch.cat(depths))
