"""What a drafter would reach on texts that are known, without an engine.

The tokens before each slot are taken from the text. A greedy draft is accepted as long as it equals the text, and as
long as it does, that is what the drafter itself would have put there, so the accepted lengths are those of serving.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import IntArray, ints
from paradraft.nets.networks.net import Net
from paradraft.nets.vocabulary import DraftVocabulary
from paradraft.train.anchors import all_anchors
from paradraft.train.batches import draft_labels, make_slots, move
from paradraft.train.examples import Example
from paradraft.train.losses import batch_hits

_SPREAD = 64  # anchors of a text that a quick measure looks at


def hits_at(net: Net, example: Example, anchors: IntArray, scale: Tensor | None) -> Tensor:
    """Return whether each slot's first choice is the text's token, [A, K] bool; slots behind the end miss."""
    device = net.lm_head.weight.device
    slots = move(make_slots([example], [anchors], net.config.block_size, scale), device)
    places = DraftVocabulary(net.d2t, net.t2d).draft_ids(torch.arange(net.config.vocab_size, device=device))
    labels = draft_labels(slots.wanted, places)
    return (batch_hits(net, slots, labels) & (labels >= 0)).cpu()


def expected_length(net: Net, examples: Sequence[Example], scale: Tensor | None) -> float:
    """Return the mean accepted length at evenly spread anchors, the target's own token included.

    Anchors too near to the end for a whole block are left out.
    """
    accepted = [_lengths(net, example, scale) for example in examples]
    joined = torch.cat(accepted) if accepted else torch.zeros(0)
    return 1.0 + float(joined.double().mean()) if len(joined) else 1.0


def _lengths(net: Net, example: Example, scale: Tensor | None) -> Tensor:
    anchors = all_anchors(example.prompt_len, len(example.ids) - net.config.block_size + 1)
    if not len(anchors):
        return torch.zeros(0)
    chosen = anchors[np.unique(np.linspace(0, len(anchors) - 1, _SPREAD).astype(np.int64))]
    return torch.cumprod(hits_at(net, example, ints(chosen), scale).float(), dim=1).sum(1)
