"""Counts that are learned while serving: bounded, and each tenant's for itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from paradraft.core.arrays import IntArray
from paradraft.drafters.table.layout import FACTORS, MASK, MAX_ENTRIES

_FADING = 64  # a context seen this often has all its counts halved, so that the present is heard


class TenantCounts:
    """What one tenant's answers went on with, by context."""

    def __init__(self) -> None:
        self.contexts: OrderedDict[tuple[int, int], dict[int, int]] = OrderedDict()  # counts by length and key

    def __len__(self) -> int:
        return len(self.contexts)

    def learn(self, length: int, key: int, token: int) -> int:
        """Count a continuation of a context; return how many contexts this added."""
        counts = self.contexts.setdefault((length, key), {})
        is_new = not counts
        counts[token] = counts.get(token, 0) + 1
        if len(counts) > MAX_ENTRIES:
            del counts[min(counts, key=counts.__getitem__)]
        if sum(counts.values()) > _FADING:
            counts = {word: count // 2 for word, count in counts.items() if count > 1} or {token: 1}
            self.contexts[length, key] = counts
        self.contexts.move_to_end((length, key))
        return int(is_new)

    def drop_oldest(self) -> None:
        """Forget the context that has not been seen for the longest time."""
        self.contexts.popitem(last=False)


class Overlay:
    """At most max_contexts contexts over all tenants, about 300 bytes each; the tenant with most pays first."""

    def __init__(self, *, lengths: Sequence[int], max_contexts: int) -> None:
        """Count contexts of these lengths."""
        self._parts = tuple(zip((0, *lengths), lengths, strict=False))
        self._longest = max(lengths, default=0)
        self._max_contexts = max_contexts
        self._tenants: dict[str, TenantCounts] = {}
        self.num_contexts = 0

    @property
    def num_tenants(self) -> int:
        """Return how many tenants have counts."""
        return len(self._tenants)

    def of(self, tenant: str) -> TenantCounts | None:
        """Return the counts of a tenant, None if there are none; nothing of one tenant is told to another."""
        return self._tenants.get(tenant)

    def learn(self, tenant: str, text: IntArray, since: int) -> None:
        """Count the tokens of a text from place `since` on as continuations of what stands before them."""
        if not self._max_contexts or since >= len(text):
            return
        counts = self._tenants.setdefault(tenant, TenantCounts())
        first = max(since - self._longest, 0)
        words: list[int] = text[first:].tolist()
        for place in range(max(since - first, 1), len(words)):
            self.num_contexts += self._learn_one(counts, words, place)
        self._shrink()

    def _learn_one(self, counts: TenantCounts, words: list[int], place: int) -> int:
        key, added = 0, 0
        for begin, end in self._parts:
            if end > place:
                break
            for back in range(begin, end):
                key += words[place - 1 - back] * FACTORS[back]
            added += counts.learn(end, key & MASK, words[place])
        return added

    def _shrink(self) -> None:
        while self.num_contexts > self._max_contexts:
            largest = max(self._tenants, key=lambda tenant: len(self._tenants[tenant]))
            counts = self._tenants[largest]
            for _ in range(max((self.num_contexts - self._max_contexts) // len(self._tenants), 1)):
                if not len(counts):
                    break
                counts.drop_oldest()
                self.num_contexts -= 1
            if not len(counts):
                del self._tenants[largest]
