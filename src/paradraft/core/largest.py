"""The largest of many logits, found without sorting them all."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints


def largest(logits: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """Return ids and values of the largest `count` of logits [V], by (-logit, id)."""
    kept = min(count, len(logits))
    if kept <= 0:
        return ints([]), logits[:0]
    least = np.partition(logits, len(logits) - kept)[len(logits) - kept]
    above = np.flatnonzero(logits > least)
    ids = np.concatenate([above, np.flatnonzero(logits == least)[: kept - len(above)]])
    ids = ids[np.lexsort((ids, -logits[ids]))]
    return ints(ids), logits[ids]
