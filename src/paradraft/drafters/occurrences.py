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

from paradraft.core.arrays import IntArray, ints

Places = npt.NDArray[np.int64]

SEPARATOR = -1  # stands between texts of one index; no token equals it
_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio; its powers weigh the tokens of an n-gram
_FIRST_CAPACITY = 256
_ROOMY = 8  # capacity over tokens from which dropping tokens shrinks the memory
_BULK = 24  # tokens from which linking them all at once is quicker than one by one


class TokenIndex:
    """The last `max_tokens` tokens of a text and the places of their n-grams, for the lengths in `orders`.

    Memory grows with the text up to about 4 + 16 * len(orders) bytes for each of max_tokens, rounded up to a
    power of two.
    """

    def __init__(self, *, orders: Sequence[int], max_tokens: int) -> None:
        """Index n-grams of these lengths, each at least 1."""
        self.orders = tuple(sorted(orders))
        self.end = 0  # the place of the next token
        self._max_tokens = max_tokens
        self._floor = 0
        self._linked = 0  # n-grams that end below this place are in the chains
        self._factors = [pow(_STEP, power, 2**64) for power in range(1, self.orders[-1] + 1)]
        self._parts = tuple(zip((0, *self.orders), self.orders, strict=False))
        self._allocate(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return self.end - self.floor

    @property
    def floor(self) -> int:
        """Return the place of the oldest token that is still known."""
        return max(self._floor, self.end - self._max_tokens)

    @property
    def num_slots(self) -> int:
        """Return how many tokens there is memory for."""
        return self._capacity

    def drop(self, count: int) -> None:
        """Forget the oldest `count` tokens; memory far larger than what is left needs is given back."""
        self._floor = self.floor + count
        if len(self) * _ROOMY < self._capacity > _FIRST_CAPACITY:
            self._shrink()

    def skip_to(self, place: int) -> None:
        """Leave out the tokens before this place, which is not below `end`; all that was known is forgotten."""
        self.end = self._floor = self._linked = place

    def follow(self, text: IntArray) -> None:
        """Append what a growing text has beyond `end`; its places are those of the text."""
        if self.end < len(text):
            self.extend(text[self.end :])

    def extend(self, tokens: IntArray) -> None:
        """Append tokens. The n-grams that end in the last one are linked when its successor comes."""
        if len(tokens) > self._max_tokens:
            self.skip_to(self.end + len(tokens) - self._max_tokens)
            tokens = tokens[-self._max_tokens :]
        self._grow(len(self) + len(tokens))
        mask, view = self._capacity - 1, self._token_view
        if len(tokens) < _BULK:
            for place, token in enumerate(tokens.tolist(), start=self.end):
                view[place & mask] = token
        else:
            self._tokens[np.arange(self.end, self.end + len(tokens)) & mask] = tokens
        self.end += len(tokens)
        self._link_to(self.end - 1)

    def find(self, context: Sequence[int], limit: int) -> tuple[int, list[int]]:
        """Return where the longest indexed n-gram that ends the context occurred before, and its length.

        context holds the last tokens, the newest first. Places are those of the n-gram's last token, the most recent
        first, at most limit. Nothing found gives (0, []).
        """
        keys = self._keys(context)
        for order in range(len(keys) - 1, -1, -1):
            places = self._follow(order, keys[order], context, limit)
            if places:
                return self.orders[order], places
        return 0, []

    def match_len(self, place: int, context: Sequence[int], known: int) -> int:
        """Return how many tokens that end at place are those of the context (newest first); `known` of them are."""
        tokens, mask, floor = self._token_view, self._capacity - 1, self.floor
        for length in range(known, len(context)):
            if place - length < floor or tokens[(place - length) & mask] != context[length]:
                return length
        return len(context)

    def after(self, place: int, count: int) -> list[int]:
        """Return the tokens behind place, at most count."""
        begin, capacity = place + 1, self._capacity
        end = min(begin + count, self.end)
        start, stop = begin & (capacity - 1), end & (capacity - 1)
        if start < stop:
            return self._token_view[start:stop].tolist()
        if end <= begin:
            return []
        return self._token_view[start:].tolist() + self._token_view[:stop].tolist()

    def recent(self, count: int) -> list[int]:
        """Return the last tokens, the newest first, at most count."""
        begin = max(self.end - count, self.floor) - 1
        return self.after(begin, self.end - begin)[::-1]

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

    def _follow(self, order: int, key: int, context: Sequence[int], limit: int) -> list[int]:
        head, before = self._heads[order], self._chains[order]
        mask, tokens, length = self._capacity - 1, self._token_view, self.orders[order]
        lowest = self.floor + length - 1
        found: list[int] = []
        place = head[key >> self._shift] - 1
        for _ in range(4 * limit):
            if place < lowest:
                break
            for back in range(length):
                if tokens[(place - back) & mask] != context[back]:
                    break
            else:
                found.append(place)
                if len(found) == limit:
                    break
            place = before[place & mask] - 1
        return found

    def _link_to(self, end: int) -> None:
        """Link the n-grams that end below `end` and are not linked yet."""
        begin = max(self._linked, self.floor)
        if end - begin >= _BULK:
            self._link_all(begin, end)
        else:
            for place in range(begin, end):
                self._link(place)
        self._linked = max(end, begin)

    def _link(self, place: int) -> None:
        mask, tokens, shift = self._capacity - 1, self._token_view, self._shift
        length = min(len(self._factors), place - self.floor + 1)
        context = [tokens[(place - back) & mask] for back in range(length)]
        for head, before, key in zip(self._heads, self._chains, self._keys(context), strict=False):
            bucket = key >> shift
            before[place & mask] = head[bucket]
            head[bucket] = place + 1

    def _link_all(self, begin: int, end: int) -> None:
        """Link the n-grams that end at begin .. end-1, to the same chains as _link one after the other."""
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

    def _grow(self, count: int) -> None:
        """Make room for count tokens, at most max_tokens; chains of a bucket that splits go on sharing their past."""
        wanted = self._capacity
        while wanted < min(count, self._max_tokens):
            wanted *= 2
        if wanted == self._capacity:
            return
        tokens, heads, chains, capacity = self._tokens, self._head_arrays, self._chain_arrays, self._capacity
        self._allocate(wanted)
        place = self.floor
        while place < self.end:
            count = min(self.end - place, capacity - place % capacity)
            source, target = place % capacity, place % wanted
            self._tokens[target : target + count] = tokens[source : source + count]
            for chain, longer in zip(chains, self._chain_arrays, strict=True):
                longer[target : target + count] = chain[source : source + count]
            place += count
        for head, wider in zip(heads, self._head_arrays, strict=True):
            wider[:] = np.repeat(head, wanted // capacity)

    def _shrink(self) -> None:
        kept = ints(self.recent(len(self))[::-1])
        self.end = self._linked = self._floor
        self._allocate(_FIRST_CAPACITY)
        self.extend(kept)

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self._shift = 65 - capacity.bit_length()  # a bucket is the top bits of a hash
        self._tokens = np.zeros(capacity, dtype=np.int32)
        self._head_arrays = [np.zeros(capacity, dtype=np.int64) for _ in self.orders]
        self._chain_arrays = [np.zeros(capacity, dtype=np.int64) for _ in self.orders]
        # Single entries are read and written several times faster through a memoryview.
        self._token_view = _view(self._tokens)
        self._heads = [_view(array) for array in self._head_arrays]
        self._chains = [_view(array) for array in self._chain_arrays]


def _view(array: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> memoryview:
    return array.data
