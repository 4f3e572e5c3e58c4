"""What a table was counted on, as far as it can be told: contexts as tokens again, with their counts.

A table knows contexts by parts of their keys alone. But both the newer and the older part of a context were seen often
enough to be contexts of their own, so those of a length are among the pairs of contexts one token shorter that overlap.
What a table left out (continuations beyond the most frequent ones, and contexts seen too rarely) is not found again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paradraft.drafters.table.layout import FACTORS, MARK_BITS, Order, Table

_CHUNK = 1024  # contexts whose longer ones are looked for together: of one token, up to a vocabulary of them each
Keys = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Counted:
    """Continuations of contexts of one length: a full key, a token and a count for each, [E]."""

    keys: Keys
    words: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


def recover_counts(table: Table) -> dict[int, Counted]:
    """Return what can be told again of each length of contexts."""
    found: dict[int, Counted] = {}
    texts = np.zeros((1, 0), dtype=np.int64)  # [C, length], the newest token first
    for order in table.orders:
        while texts.shape[1] < order.length - 1:
            texts = _joined(texts, table.vocab_size)
        texts, keys, places = _known_in(order, texts, table.vocab_size)
        entries, owner = _entries_of(order, places)
        found[order.length] = Counted(
            keys=keys[owner],
            words=order.tokens[entries].astype(np.int64),
            counts=order.counts[entries].astype(np.int64),
        )
    return found


def _known_in(order: Order, texts: Places, vocab_size: int) -> tuple[Places, Keys, Places]:
    """Return the order's contexts out of those that overlapping texts make, with their keys and places."""
    parts: list[tuple[Places, Keys, Places]] = []
    for begin in range(0, max(len(texts), 1), _CHUNK):
        longer = _joined(texts, vocab_size, slice(begin, begin + _CHUNK))
        keys = _keys_of(longer)
        places = _places_in(order, keys)
        is_known = places >= 0
        parts.append((longer[is_known], keys[is_known], places[is_known]))
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _joined(texts: Places, vocab_size: int, newer: slice = slice(None)) -> Places:
    """Return the texts one token longer whose newer part is one of `newer` and whose older part is any of the texts."""
    length = texts.shape[1]
    if not length:
        return np.arange(vocab_size, dtype=np.int64)[:, None]
    head, tail = _keys_of(texts[:, :-1]), _keys_of(texts[newer, 1:])  # what overlaps, of the older and the newer part
    order = np.argsort(head, kind="stable")
    low = np.searchsorted(head[order], tail, side="left")
    sizes = np.searchsorted(head[order], tail, side="right") - low
    owner = np.repeat(np.arange(len(tail)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    older = order[np.arange(len(owner)) - first + np.repeat(low, sizes)]
    return np.column_stack([texts[newer][owner], texts[older, -1]])


def _keys_of(texts: Places) -> Keys:
    keys = np.zeros(len(texts), dtype=np.uint64)
    for place in range(texts.shape[1]):
        keys += texts[:, place].astype(np.uint64) * np.uint64(FACTORS[place])
    return keys


def _places_in(order: Order, keys: Keys) -> Places:
    """Return where the order keeps each context, -1 where it does not."""
    bits = (len(order.heads) - 1).bit_length() - 1
    buckets = (keys >> np.uint64(64 - bits)).astype(np.int64)
    marks = (keys >> np.uint64(64 - bits - MARK_BITS)) & np.uint64(2**MARK_BITS - 1)
    at, end = order.heads[buckets].astype(np.int64), order.heads[buckets + 1].astype(np.int64)
    places = np.full(len(keys), -1, dtype=np.int64)
    open_keys = np.flatnonzero(at < end)
    while len(open_keys):
        is_hit = order.marks[at[open_keys]] == marks[open_keys]
        places[open_keys[is_hit]] = at[open_keys[is_hit]]
        at[open_keys] += 1
        open_keys = open_keys[~is_hit & (at[open_keys] < end[open_keys])]
    return places


def _entries_of(order: Order, places: Places) -> tuple[Places, Places]:
    """Return the entries of the contexts at these places, and for each the index of its context, both [E]."""
    begins = order.begins[places].astype(np.int64)
    sizes = order.begins[places + 1].astype(np.int64) - begins
    owner = np.repeat(np.arange(len(places)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.arange(len(owner)) - first + np.repeat(begins, sizes), owner
