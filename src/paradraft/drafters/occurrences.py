"""Where token n-grams occurred before in a growing text: the hash chains of an LZ77 match finder (RFC 1951, 4).

For each indexed length n, `head` maps the hash of an n-gram to the place where it last ended, and `before` leads
from there to the earlier place of the same bucket. Adding a token and finding the last occurrence take the same
time whatever the text, one repeated token included. Places are counted from the first token ever added and are
never reused; what falls out of the window of the last `max_tokens` tokens is simply not followed any more.
Hashes may collide, so whoever follows a chain compares the tokens, and gives up after a few times its limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import IntArray
from paradraft.drafters.token_ring import BULK, TokenRing, view_of

Occurrence = tuple[int, list[int]]  # see TokenIndex.find

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio; its powers weigh the tokens of an n-gram


class TokenIndex(TokenRing):
    """A window of a text that also knows where its n-grams occurred, for the lengths in `orders`.

    Memory: up to about 4 + 16 * len(orders) bytes for each of max_tokens, rounded up to a power of two.
    """

    def __init__(self, *, orders: Sequence[int], max_tokens: int) -> None:
        """Index n-grams of these lengths, each at least 1."""
        self.orders = tuple(sorted(orders))
        self._linked = 0  # n-grams that end below this place are in the chains
        self._factors = [pow(_STEP, power, 2**64) for power in range(1, self.orders[-1] + 1)]
        self._parts = tuple(zip((0, *self.orders), self.orders, strict=False))
        super().__init__(max_tokens=max_tokens)

    def extend(self, tokens: IntArray) -> None:
        """Append tokens. The n-grams that end in the last one are linked when its successor comes."""
        super().extend(tokens)
        self._link_to(self.end - 1)

    def find(self, context: Sequence[int], limit: int, depth: int) -> list[Occurrence]:
        """Return where the longest indexed n-gram that ends the context occurred before, the most recent first.

        context holds the last tokens, the newest first. An occurrence is (how many tokens of the context stand there,
        the tokens behind it, at most depth). At most limit are returned, [] if there is none.
        """
        keys = self._keys(context)
        lowest = self.floor
        for order in range(len(keys) - 1, -1, -1):
            place = self._heads[order][keys[order] >> self._shift] - 1
            if place >= lowest:
                found = self._follow(order, place, context, limit, depth)
                if found:
                    return found
        return []

    def _keys(self, context: Sequence[int]) -> list[int]:
        """Return the hash of each indexed n-gram that ends the context, the shortest first."""
        keys: list[int] = []
        key, factors = 0, self._factors
        for begin, order in self._parts:
            if order > len(context):
                break
            for place in range(begin, order):
                key += context[place] * factors[place]
            keys.append(key & _MASK)
        return keys

    def _follow(self, order: int, place: int, context: Sequence[int], limit: int, depth: int) -> list[Occurrence]:
        """Return the occurrences on a chain from a place on."""
        # One loop without calls: drafting goes through it for every row and step.
        before = self._chains[order]
        mask, tokens, shortest = self._capacity - 1, self._token_view, self.orders[order]
        lowest, newest = self.floor, self.end - depth
        found: list[Occurrence] = []
        for _ in range(4 * limit):
            known = place - lowest + 1
            if known < shortest:
                break
            length = 0
            for token in context:
                if tokens[(place - length) & mask] != token:
                    break
                length += 1
            if length >= shortest:
                begin = (place + 1) & mask
                is_whole = place < newest and begin + depth <= mask
                follows = tokens[begin : begin + depth].tolist() if is_whole else self.after(place, depth)
                found.append((length if length < known else known, follows))
                if len(found) == limit:
                    break
            place = before[place & mask] - 1
        return found

    def _link_to(self, end: int) -> None:
        """Link the n-grams that end below `end` and are not linked yet."""
        begin = max(self._linked, self.floor)
        if end - begin >= BULK:
            self._link_all(begin, end)
        elif begin < end:
            first = max(begin - len(self._factors) + 1, self.floor)
            latest = self.after(first - 1, end - first)[::-1]
            mask, shift = self._capacity - 1, self._shift
            for place in range(begin, end):
                keys = self._keys(latest[end - 1 - place :])
                for head, before, key in zip(self._heads, self._chains, keys, strict=False):
                    bucket = key >> shift
                    before[place & mask] = head[bucket]
                    head[bucket] = place + 1
        self._linked = max(end, begin)

    def _link_all(self, begin: int, end: int) -> None:
        """Link the n-grams that end at begin .. end-1, to the same chains as one after the other."""
        longest, count = len(self._factors), end - begin
        places = np.arange(begin - longest + 1, end)
        values = self._tokens[places & (self._capacity - 1)].astype(np.uint64)
        values[places < self.floor] = 0
        keys = np.zeros(count, dtype=np.uint64)
        for length, factor in enumerate(self._factors, start=1):
            keys += values[longest - length :][:count] * np.uint64(factor)
            if length in self.orders:
                missing = max(self.floor + length - 1 - begin, 0)
                self._chain_up(self.orders.index(length), keys[missing:] >> np.uint64(self._shift), begin + missing)

    def _chain_up(self, order: int, buckets: npt.NDArray[np.uint64], begin: int) -> None:
        """Put places begin, begin+1, ... in front of the chains of their buckets."""
        if not len(buckets):
            return
        head, before = self._head_arrays[order], self._chain_arrays[order]
        by_bucket = np.argsort(buckets, kind="stable")
        groups = buckets[by_bucket]
        places = by_bucket + begin
        starts_group = np.concatenate([[True], groups[1:] != groups[:-1]])
        earlier = np.concatenate([[0], places[:-1] + 1])
        before[places & (self._capacity - 1)] = np.where(starts_group, head[groups], earlier)
        ends_group = np.concatenate([starts_group[1:], [True]])
        head[groups[ends_group]] = places[ends_group] + 1

    def _widen(self, capacity: int) -> None:
        """Move to a larger capacity; chains of a bucket that splits go on sharing their past."""
        heads, chains = self._head_arrays, self._chain_arrays
        super()._widen(capacity)
        for chain, longer in zip(chains, self._chain_arrays, strict=True):
            self._copy(chain, longer)
        for head, wider in zip(heads, self._head_arrays, strict=True):
            wider[:] = np.repeat(head, len(wider) // len(head))

    def _allocate(self, capacity: int) -> None:
        super()._allocate(capacity)
        self._linked = min(self._linked, self.end)
        self._shift = 65 - capacity.bit_length()  # a bucket is the top bits of a hash
        self._head_arrays = [np.zeros(capacity, dtype=np.int64) for _ in self.orders]
        self._chain_arrays = [np.zeros(capacity, dtype=np.int64) for _ in self.orders]
        self._heads = [view_of(array) for array in self._head_arrays]
        self._chains = [view_of(array) for array in self._chain_arrays]
