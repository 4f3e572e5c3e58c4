"""Finished answers that later requests of the same tenant can draft from."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from paradraft.core.arrays import IntArray, join
from paradraft.drafters.occurrences import TokenIndex
from paradraft.drafters.token_ring import SEPARATOR

TENANT_COST = 256  # tokens that an index of its own counts for, whatever it holds


class SharedTexts:
    """An index of finished texts for each tenant; nothing of one tenant is ever looked up for another.

    All together hold at most max_tokens tokens, plus a separator each; the oldest text goes first, whoever's it is.
    """

    def __init__(self, *, orders: Sequence[int], max_tokens: int) -> None:
        self._orders = tuple(orders)
        self._max_tokens = max_tokens
        self._indices: dict[str, TokenIndex] = {}
        self._texts: deque[tuple[str, int]] = deque()
        self.num_tokens = 0

    @property
    def num_tenants(self) -> int:
        """Return how many tenants have a text."""
        return len(self._indices)

    def of(self, tenant: str) -> TokenIndex | None:
        """Return the texts of a tenant, None if there are none."""
        return self._indices.get(tenant)

    def add(self, tenant: str, text: IntArray) -> None:
        """Take in a finished text; too long ones keep their end."""
        room = self._max_tokens - TENANT_COST - 1
        if room <= 0 or not len(text):
            return
        text = text[-room:]
        if tenant not in self._indices:
            self._indices[tenant] = TokenIndex(orders=self._orders, max_tokens=self._max_tokens)
            self.num_tokens += TENANT_COST
        self._texts.append((tenant, len(text) + 1))
        self.num_tokens += len(text) + 1
        self._indices[tenant].extend(join([text, [SEPARATOR]]))
        while self.num_tokens > self._max_tokens:
            self._evict()

    def _evict(self) -> None:
        tenant, count = self._texts.popleft()
        index = self._indices[tenant]
        index.drop(count)
        self.num_tokens -= count
        if not len(index):
            del self._indices[tenant]
            self.num_tokens -= TENANT_COST
