"""Logits and taps of one pass as the engine reads them, whatever device they live on.

Legend: S scored positions, V vocabulary, T fed tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.largest import largest
from paradraft.core.passed import recorded
from paradraft.models.layout import PassLayout


class TensorScores:
    """Implements core.ports.Scores over tensors; on a GPU only what is asked for is copied to the host."""

    def __init__(
        self, layout: PassLayout, logits: Tensor, *, hidden: Mapping[int, Tensor], entropies: Mapping[int, Tensor]
    ) -> None:
        """Take logits [S, V] in fp32, and taps [T, hidden size] and entropies [T, heads] by layer."""
        self.starts = layout.starts
        self.fed_starts = layout.fed_starts
        self._logits = logits
        self._host = to_host(logits) if logits.device.type == "cpu" else None
        self._hidden = hidden
        self._entropies = entropies

    def argmax(self) -> IntArray:
        """Return the id of the largest logit at each scored position, the lowest id on ties, [S]."""
        if self._host is None:
            return ints(self._logits.argmax(dim=-1).cpu().numpy())
        # numpy stops at the first of equals as torch does, and is several times faster on one row
        return ints(self._host.argmax(axis=-1))

    def row(self, index: int) -> FloatArray:
        """Return the logits at a scored position, [V], read-only."""
        if self._host is None:
            return to_host(self._logits[index])
        logits: FloatArray = self._host[index]
        return logits

    def top(self, index: int, count: int) -> tuple[IntArray, FloatArray]:
        """Return the ids and logits of the largest `count` at a scored position, by (-logit, id)."""
        return largest(self.row(index), count)

    def hidden(self, layer: int) -> FloatArray:
        """Return a tap at every fed token, [T, hidden size]; raise ProtocolError for a layer that is not tapped."""
        return to_host(recorded(self._hidden, layer, "hidden states"))

    def attention_entropy(self, layer: int) -> FloatArray:
        """Return a layer's attention entropies, [T, heads]; raise ProtocolError if they were not asked for."""
        return to_host(recorded(self._entropies, layer, "attention entropies"))


def to_host(values: Tensor) -> FloatArray:
    """Return the values in fp32, read-only."""
    array: FloatArray = values.to(device="cpu", dtype=torch.float32).numpy()
    array.flags.writeable = False
    return array
