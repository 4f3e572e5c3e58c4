"""Looks continuations up and weighs them: longer contexts first, each for what the longer ones leave.

With c_n(t) of the c_n times that the last n tokens were seen going on with t, D a discount that grows with the count,
and P of the next shorter context,
    P_n(t) = max(c_n(t) - D(c_n(t)), 0) / c_n + left_n * P(t),   left_n = 1 - sum of the first term
(interpolated absolute discounting, modified after Chen and Goodman, 1998; discounts are estimated from the counts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paradraft.drafters.coupling import PositionNoise
from paradraft.drafters.guesses import MAX_SHARES, likeliest
from paradraft.drafters.table.frequent import frequent_tokens
from paradraft.drafters.table.layout import FACTORS, MARK_BITS, MASK, Order, Table
from paradraft.drafters.table.overlay import Learned, Parts, TenantCounts

_MARK_MASK = 2**MARK_BITS - 1
_ENOUGH = 0.02  # what is left of certainty below which shorter contexts are not asked
_MAX_KNOWN = 20_000  # contexts of one order whose parts are kept at hand, at most about 20 MB


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
        self._known: dict[int, Parts | None] = {}

    def parts(self, key: int) -> Parts | None:
        """Return a context's parts, None if it was never seen. Few contexts make up most of all lookups."""
        if key in self._known:
            return self._known[key]
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        total, tokens, counts = self.find(key)
        found = self._known[key] = self._weigh(total, tokens, counts) if total else None
        return found

    def parts_with(self, key: int, learned: Learned) -> Parts:
        """Return a context's parts with learned counts added to the table's."""
        if learned.parts is None:
            total, tokens, counts = self.find(key)
            both = dict(zip(tokens, counts, strict=True))
            for token, count in learned.counts.items():
                both[token] = both.get(token, 0) + count
            learned.parts = self._weigh(total + sum(learned.counts.values()), list(both), list(both.values()))
        return learned.parts

    def _weigh(self, total: int, tokens: list[int], counts: list[int]) -> Parts:
        """Return the discounted shares of counts, and what they leave."""
        discounts, scale = self.discounts, 1.0 / total
        shares = {
            token: (count - discounts[count if count < 3 else 3]) * scale
            for token, count in zip(tokens, counts, strict=True)
        }
        return 1.0 - sum(shares.values()), shares

    def find(self, key: int) -> tuple[int, list[int], list[int]]:
        """Return how often a context was seen, and its continuations with their counts."""
        bucket, mark = key >> self.shift, (key >> self.mark_shift) & _MARK_MASK
        marks = self.marks
        for at in range(self.heads[bucket], self.heads[bucket + 1]):
            if marks[at] == mark:
                begin, end = self.begins[at], self.begins[at + 1]
                return self.totals[at], self.tokens[begin:end].tolist(), self.counts[begin:end].tolist()
        return 0, [], []


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
        shares, left = self._law(context, learned)
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

    def _law(self, context: Sequence[int], learned: TenantCounts | None) -> tuple[dict[int, float], float]:
        """Return the chances after a context, and what they leave."""
        found = self._found(context, learned)
        if not found:
            return {}, 1.0
        mass, parts = found.pop()
        shares = parts.copy()
        while found and mass >= _ENOUGH:
            left, parts = found.pop()
            for token, part in parts.items():
                shares[token] = shares.get(token, 0.0) + mass * part
            mass *= left
        return shares, mass

    def _found(self, context: Sequence[int], learned: TenantCounts | None) -> list[Parts]:
        """Return what is known of each length of the context, the shortest first.

        Where a context was never seen, no longer one was, so the first miss ends the search.
        """
        found: list[Parts] = []
        key, done, known = 0, 0, len(context)
        contexts = {} if learned is None else learned.contexts
        for finder in self._finders:
            length = finder.length
            if length > known:
                break
            for place in range(done, length):
                key += context[place] * FACTORS[place]
            done = length
            key &= MASK
            own = contexts.get((length, key))
            parts = finder.parts(key) if own is None else finder.parts_with(key, own)
            if parts is None:
                break
            found.append(parts)
        return found
