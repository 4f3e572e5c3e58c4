"""How often tokens come whatever stands before them: worth nothing as a guess, unless the target's noise is known.

The target takes argmax(log p + G). A token that G favours by 8 beats the likeliest one even at p = e**-8, and among
some hundred usual tokens there always are a few that G favours. So what contexts leave goes to these few.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.drafters.coupling import MAX_POSITIONS, PositionNoise, races
from paradraft.drafters.table.layout import FACTORS, MARK_BITS, Order

NUM_TOKENS = 512  # looked at; twice as many find nothing more in what is left of a table of 281 thousand tokens
NUM_WINNERS = 8
_AHEAD = 16  # positions looked at together: the row comes to them soon


@dataclass(frozen=True, slots=True, eq=False)
class Frequent:
    """The most frequent tokens."""

    ids: IntArray  # [n]
    log_shares: DoubleArray  # [n]
    _known: dict[PositionNoise, dict[int, float]] = field(default_factory=dict)

    def winners(self, noise: PositionNoise) -> dict[int, float]:
        """Return those that the target would choose first if its law were this one, with their shares."""
        if noise not in self._known:
            if len(self._known) >= MAX_POSITIONS:
                self._known.clear()
            ahead = noise.ahead(_AHEAD)
            first = races(ahead, self.ids, self.log_shares, NUM_WINNERS)
            shares = np.exp(self.log_shares[first]).tolist()
            for place, named, chances in zip(ahead, self.ids[first].tolist(), shares, strict=True):
                self._known[place] = dict(zip(named, chances, strict=True))
        return self._known[noise]


def frequent_tokens(order: Order, vocab_size: int) -> Frequent:
    """Return the tokens that the contexts of one token were seen most with."""
    counts = _totals(order, vocab_size)
    most = np.argsort(-counts, kind="stable")[:NUM_TOKENS]
    most = most[counts[most] > 0]
    return Frequent(ints(most), np.log(counts[most] / max(counts.sum(), 1.0)))


def _totals(order: Order, vocab_size: int) -> DoubleArray:
    """Return how often each token was seen as a context, [vocab_size]."""
    bits = (len(order.heads) - 1).bit_length() - 1
    keys = np.arange(vocab_size, dtype=np.uint64) * np.uint64(FACTORS[0])
    buckets = (keys >> np.uint64(64 - bits)).astype(np.intp)
    marks = (keys >> np.uint64(64 - bits - MARK_BITS)).astype(np.uint32)
    begins, ends = order.heads[buckets].astype(np.intp), order.heads[buckets + 1].astype(np.intp)
    totals = np.zeros(vocab_size)
    for step in range(int((ends - begins).max(initial=0))):
        inside = np.flatnonzero(begins + step < ends)
        places = begins[inside] + step
        is_it = order.marks[places] == marks[inside]
        totals[inside[is_it]] = order.totals[places[is_it]]
    return totals
