"""Looks up in a table what comes after a context, and adds what a tenant's answers went on with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from paradraft.drafters.coupling import PositionNoise
from paradraft.drafters.guesses import MAX_SHARES, likeliest
from paradraft.drafters.table.frequent import frequent_tokens
from paradraft.drafters.table.interpolation import Seen, interpolated
from paradraft.drafters.table.layout import FACTORS, MARK_BITS, MASK, Order, Table
from paradraft.drafters.table.overlay import TenantCounts

_MARK_MASK = 2**MARK_BITS - 1


class _Finder:
    """One order with what a lookup needs at hand."""

    def __init__(self, order: Order) -> None:
        self.length = order.length
        self.discounts = (0.0, *order.discounts)
        bits = (len(order.heads) - 1).bit_length() - 1
        self.shift = 64 - bits
        self.mark_shift = 64 - bits - MARK_BITS
        # Single entries of a memoryview are read several times faster than those of an array.
        self.heads, self.marks, self.totals = order.heads.data, order.marks.data, order.totals.data
        self.begins, self.tokens, self.counts = order.begins.data, order.tokens.data, order.counts.data

    def seen(self, key: int, learned: Mapping[int, int] | None) -> Seen | None:
        """Return what came after a context, learned counts added to the table's; None if it was never seen."""
        total, counts = self.find(key)
        if learned is not None:
            both = dict(counts)
            for token, count in learned.items():
                both[token] = both.get(token, 0) + count
            total, counts = total + sum(learned.values()), both.items()
        return (total, counts, self.discounts) if total else None

    def find(self, key: int) -> tuple[int, Iterable[tuple[int, int]]]:
        """Return how often the table saw a context, and its continuations with their counts."""
        bucket, mark = key >> self.shift, (key >> self.mark_shift) & _MARK_MASK
        marks = self.marks
        for at in range(self.heads[bucket], self.heads[bucket + 1]):
            if marks[at] == mark:
                begin, end = self.begins[at], self.begins[at + 1]
                pairs = zip(self.tokens[begin:end].tolist(), self.counts[begin:end].tolist(), strict=True)
                return self.totals[at], pairs
        return 0, ()


class TableLookup:
    """A table that can be asked what comes after a context."""

    def __init__(self, table: Table) -> None:
        self.longest = max((order.length for order in table.orders), default=0)
        self.lengths = tuple(order.length for order in table.orders)
        self._finders = [_Finder(order) for order in table.orders]
        single = [order for order in table.orders if order.length == 1]
        self._frequent = frequent_tokens(single[0], table.vocab_size) if single else None

    def shares(
        self, context: Sequence[int], learned: TenantCounts | None, noise: PositionNoise | None = None
    ) -> dict[int, float]:
        """Return token -> chance after a context, its newest token first; learned counts are added to the table's.

        Of more tokens than an answer may have these are the likeliest; where the target's noise is known, those that it
        would choose first, and what all contexts leave goes to frequent tokens.
        """
        shares, left = interpolated(self._found(context, learned))
        if noise is None:
            return likeliest(shares)
        if self._frequent is not None:
            for token, share in self._frequent.winners(noise).items():
                shares[token] = shares.get(token, 0.0) + left * share
        if len(shares) <= MAX_SHARES:
            return shares
        gumbel = noise.of(shares)
        first = likeliest({token: share * math.exp(gumbel[token]) for token, share in shares.items()})
        return {token: shares[token] for token in first}

    def _found(self, context: Sequence[int], learned: TenantCounts | None) -> list[Seen]:
        """Return what is known of each length of the context, the shortest first.

        Where a context was never seen, no longer one was, so the first miss ends the search.
        """
        found: list[Seen] = []
        key, done, known = 0, 0, len(context)
        contexts = {} if learned is None else learned.contexts
        for finder in self._finders:
            length = finder.length
            if length > known:
                break
            for place in range(done, length):
                key += context[place] * FACTORS[place]
            key, done = key & MASK, length
            seen = finder.seen(key, contexts.get((length, key)))
            if seen is None:
                break
            found.append(seen)
        return found
