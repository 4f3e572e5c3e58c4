"""Logits and taps of one native pass as the engine reads them.

Legend: S scored positions, V vocabulary, T fed tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.largest import largest
from paradraft.core.passed import recorded


class ArrayScores:
    """Implements core.ports.Scores over arrays of the pass, which it hands out read-only."""

    def __init__(
        self,
        *,
        starts: IntArray,
        fed_starts: IntArray,
        logits: FloatArray,
        best: IntArray,
        hidden: Mapping[int, FloatArray],
        entropies: Mapping[int, FloatArray],
        largest: Callable[[FloatArray, int], tuple[IntArray, FloatArray]] = largest,
    ) -> None:
        """Take logits [S, V] and their best ids [S], and taps [T, hidden size] and entropies [T, heads] by layer.

        largest finds the largest of a row, by (-logit, id).
        """
        self.starts = starts
        self.fed_starts = fed_starts
        self._logits = _sealed(logits)
        self._best = best
        self._largest = largest
        self._hidden = {layer: _sealed(values) for layer, values in hidden.items()}
        self._entropies = {layer: _sealed(values) for layer, values in entropies.items()}

    def argmax(self) -> IntArray:
        """Return the id of the largest logit at each scored position, the lowest id on ties, [S]."""
        return self._best

    def row(self, index: int) -> FloatArray:
        """Return the logits at a scored position, [V], read-only."""
        logits: FloatArray = self._logits[index]
        return logits

    def top(self, index: int, count: int) -> tuple[IntArray, FloatArray]:
        """Return the ids and logits of the largest `count` at a scored position, by (-logit, id)."""
        return self._largest(self._logits[index], count)

    def hidden(self, layer: int) -> FloatArray:
        """Return a tap at every fed token, [T, hidden size]; raise ProtocolError for a layer that is not tapped."""
        return recorded(self._hidden, layer, "hidden states")

    def attention_entropy(self, layer: int) -> FloatArray:
        """Return a layer's attention entropies, [T, heads]; raise ProtocolError if they were not asked for."""
        return recorded(self._entropies, layer, "attention entropies")


def _sealed(values: FloatArray) -> FloatArray:
    view = values.view()
    view.flags.writeable = False
    return view
