"""The last tokens of a growing text, at places that never change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import IntArray

SEPARATOR = -1  # stands between texts in one ring; no token equals it
FIRST_CAPACITY = 256
BULK = 24  # tokens from which array operations are quicker than one by one
_ROOMY = 8  # capacity over tokens from which dropping tokens gives memory back


class TokenRing:
    """A window of the last `max_tokens` tokens. Places are counted from the first token ever added.

    Memory grows with the text, in powers of two.
    """

    def __init__(self, *, max_tokens: int) -> None:
        self.end = 0  # the place of the next token
        self._max_tokens = max_tokens
        self._floor = 0
        self._allocate(FIRST_CAPACITY)

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
        if len(self) * _ROOMY < self._capacity > FIRST_CAPACITY:
            kept = np.array(self.recent(len(self))[::-1], dtype=np.int32)
            self.end = self._floor
            self._allocate(FIRST_CAPACITY)
            self.extend(kept)

    def follow(self, text: IntArray) -> None:
        """Append what a growing text has beyond `end`; its places are those of the text."""
        if self.end < len(text):
            self.extend(text[self.end :])

    def extend(self, tokens: IntArray) -> None:
        """Append tokens."""
        if len(tokens) > self._max_tokens:
            self.end = self._floor = self.end + len(tokens) - self._max_tokens
            tokens = tokens[-self._max_tokens :]
        if self.end + len(tokens) - self._floor > self._capacity:
            self._grow(min(len(self) + len(tokens), self._max_tokens))
        mask, view = self._capacity - 1, self._token_view
        if len(tokens) < BULK:
            for place, token in enumerate(tokens.tolist(), start=self.end):
                view[place & mask] = token
        else:
            self._tokens[np.arange(self.end, self.end + len(tokens)) & mask] = tokens
        self.end += len(tokens)

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

    def _grow(self, count: int) -> None:
        """Make room for count tokens."""
        wanted = self._capacity
        while wanted < count:
            wanted *= 2
        if wanted > self._capacity:
            self._widen(wanted)

    def _widen(self, capacity: int) -> None:
        """Move to a larger capacity."""
        tokens = self._tokens
        self._allocate(capacity)
        self._copy(tokens, self._tokens)

    def _copy(self, source: npt.NDArray[np.signedinteger], target: npt.NDArray[np.signedinteger]) -> None:
        """Copy what two rings of different capacity hold for each known place."""
        place = self.floor
        while place < self.end:
            begin, into = place % len(source), place % len(target)
            count = min(self.end - place, len(source) - begin)
            target[into : into + count] = source[begin : begin + count]
            place += count

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self._tokens = np.zeros(capacity, dtype=np.int32)
        # Single entries are read and written several times faster through a memoryview.
        self._token_view = view_of(self._tokens)


def view_of(array: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> memoryview:
    """Return the array's memory, whose entries are Python integers."""
    return array.data
