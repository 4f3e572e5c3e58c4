"""Counts continuations into a table, in whole arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import IntArray, starts_of
from paradraft.core.errors import ConfigError
from paradraft.drafters.table.layout import (
    FACTORS,
    MARK_BITS,
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_ORDER,
    Order,
    Origin,
    Table,
    bucket_bits,
)
from paradraft.drafters.table.recover import Counted, recover_counts

ORDERS = (1, 2, 3, 4, 6)
MIN_COUNTS = (1, 1, 2, 2, 2)  # contexts seen less often are left out
SMALLEST = 4096  # bytes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CountedText:
    """One finished text: ids [n], of which those from prompt_len on are counted as continuations."""

    ids: IntArray
    prompt_len: int = 0


def count_table(
    texts: Iterable[CountedText],
    *,
    vocab_size: int,
    orders: Sequence[int] = ORDERS,
    min_counts: Sequence[int] = MIN_COUNTS,
    max_bytes: int | None = None,
    origin: Origin | None = None,
    base: Table | None = None,
) -> Table:
    """Return the table of what the texts went on with after contexts of each length in `orders`.

    max_bytes: where the table is larger, contexts must have been seen more and more often, the longest lengths first.
    base: a table to go on from; what it tells again (recover.py) counts as if it were seen here too.
    Raises ConfigError for orders that cannot be counted, for ids outside the vocabulary, and for a base that differs.
    """
    _check(orders, min_counts, max_bytes)
    known = {} if base is None else _known(base, orders, vocab_size)
    parts = list(texts)
    ids, since, is_counted = _join(parts, vocab_size)
    pairs = [_Pairs(ids, length, is_counted & (since >= length), known.get(length)) for length in orders]
    least = list(min_counts)
    made = [_order(found, count, vocab_size) for found, count in zip(pairs, least, strict=True)]
    while max_bytes is not None and sum(order.num_bytes for order in made) > max_bytes:
        at = _next_to_shrink(made, least)
        least[at] += 1
        # A longer context is never kept where its end is not, so that a lookup may stop at the first miss.
        for longer in range(at, len(made)):
            if longer == at or least[longer] < least[at]:
                least[longer] = least[at]
                made[longer] = _order(pairs[longer], least[longer], vocab_size)
    num_tokens = int(is_counted.sum()) + (0 if base is None else base.num_tokens)
    return Table(vocab_size=vocab_size, num_tokens=num_tokens, orders=tuple(made), origin=origin or Origin())


class _Pairs:
    """Every (context, continuation) of one length with its count, in order of key and then count, falling."""

    def __init__(
        self,
        ids: npt.NDArray[np.int64],
        length: int,
        is_counted: npt.NDArray[np.bool_],
        known: Counted | None = None,
    ) -> None:
        self.length = length
        places = np.flatnonzero(is_counted)
        keys = np.zeros(len(places), dtype=np.uint64)
        for back in range(1, length + 1):
            keys += ids[places - back].astype(np.uint64) * np.uint64(FACTORS[back - 1])
        words, seen = ids[places], np.ones(len(places), dtype=np.int64)
        if known is not None:
            keys, words = np.concatenate([keys, known.keys]), np.concatenate([words, known.words])
            seen = np.concatenate([seen, known.counts])
        order = np.lexsort((words, keys))
        keys, words, seen = keys[order], words[order], seen[order]
        is_first = np.ones(len(keys), dtype=bool)
        is_first[1:] = (keys[1:] != keys[:-1]) | (words[1:] != words[:-1])
        first = np.flatnonzero(is_first)
        counts = np.add.reduceat(seen, first) if len(first) else seen
        self.discounts = _discounts(counts)
        self.keys, self.words, self.counts = keys[first], words[first], counts
        best = np.lexsort((self.words, -self.counts, self.keys))
        self.keys, self.words, self.counts = self.keys[best], self.words[best], self.counts[best]


def _order(pairs: _Pairs, least: int, vocab_size: int) -> Order:
    keys, words, counts = pairs.keys, pairs.words, pairs.counts
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = keys[1:] != keys[:-1]
    first = np.flatnonzero(is_first)
    totals = np.add.reduceat(counts, first) if len(first) else counts
    context = np.cumsum(is_first) - 1  # of each pair
    rank = np.arange(len(keys)) - first[context] if len(first) else np.arange(0)
    is_kept = totals >= least
    pair_kept = is_kept[context] & (rank < MAX_ENTRIES) if len(first) else np.zeros(0, dtype=bool)
    # Very frequent contexts are scaled as a whole, so that shares stay what they are.
    scale = np.minimum(1.0, MAX_COUNT / np.maximum(totals, 1))
    scaled = np.maximum(np.round(counts * scale[context]), 1.0) if len(first) else counts
    bits = bucket_bits(int(is_kept.sum()))
    kept_keys = keys[first][is_kept]
    per_context = np.bincount(context[pair_kept], minlength=len(first))[is_kept] if len(first) else np.zeros(0, int)
    buckets = (kept_keys >> np.uint64(64 - bits)).astype(np.int64)
    return Order(
        length=pairs.length,
        discounts=pairs.discounts,
        heads=np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=2**bits))]).astype(np.uint32),
        marks=((kept_keys >> np.uint64(64 - bits - MARK_BITS)) & np.uint64(2**MARK_BITS - 1)).astype(np.uint32),
        totals=np.minimum(totals[is_kept], MAX_COUNT).astype(np.uint16),
        begins=np.concatenate([[0], np.cumsum(per_context)]).astype(np.uint32),
        tokens=words[pair_kept].astype(word_type(vocab_size)),
        counts=scaled[pair_kept].astype(np.uint16),
    )


def _known(base: Table, orders: Sequence[int], vocab_size: int) -> dict[int, Counted]:
    lengths = [order.length for order in base.orders]
    if base.vocab_size != vocab_size or lengths != list(orders):
        raise ConfigError(
            f"The table to go on from has contexts of {lengths} tokens out of {base.vocab_size}, "
            f"and {list(orders)} out of {vocab_size} are to be counted.",
            remedy="Count the same lengths, with the same tokenizer.",
        )
    return recover_counts(base)


def word_type(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that holds every id."""
    return np.uint16 if vocab_size <= 2**16 else np.uint32


def _discounts(counts: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """Return what to take off counts of 1, 2 and more: modified Kneser-Ney (Chen and Goodman, 1998, section 3)."""
    n1, n2, n3, n4 = (int((counts == value).sum()) for value in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return 0.5, 0.75, 1.0
    y = n1 / (n1 + 2.0 * n2)
    raw = (1.0 - 2.0 * y * n2 / n1, 2.0 - 3.0 * y * n3 / n2, 3.0 - 4.0 * y * n4 / n3)
    first, second, third = (min(max(value, 0.05), most) for value, most in zip(raw, (0.95, 1.9, 2.9), strict=True))
    return first, second, third


def _join(
    texts: list[CountedText], vocab_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return all ids, how far each is from the beginning of its text, and whether it is counted."""
    lengths = [len(text.ids) for text in texts]
    ids = np.concatenate([text.ids for text in texts]).astype(np.int64) if texts else np.zeros(0, dtype=np.int64)
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise ConfigError(
            f"The texts hold ids from {ids.min()} to {ids.max()}, and the vocabulary has {vocab_size}.",
            remedy="Count texts of the same tokenizer.",
        )
    starts = starts_of(lengths)[:-1].astype(np.int64)
    since = np.arange(len(ids)) - np.repeat(starts, lengths)
    return ids, since, since >= np.repeat([text.prompt_len for text in texts], lengths)


def _next_to_shrink(made: list[Order], least: list[int]) -> int:
    """Return the order whose contexts are the least worth their room: the largest for what its contexts were seen."""
    return max(range(len(made)), key=lambda at: (made[at].num_bytes / least[at] ** 2, at))


def _check(orders: Sequence[int], min_counts: Sequence[int], max_bytes: int | None) -> None:
    rising = all(low < high for low, high in pairwise(orders))
    if not orders or not rising or not 1 <= orders[0] <= orders[-1] <= MAX_ORDER:
        raise ConfigError(
            f"orders={list(orders)} cannot be counted.", remedy=f"Use rising lengths from 1 to {MAX_ORDER}."
        )
    if len(min_counts) != len(orders) or min(min_counts) < 1 or list(min_counts) != sorted(min_counts):
        raise ConfigError(
            f"min_counts={list(min_counts)} does not fit orders={list(orders)}.",
            remedy="Give a count of at least 1 for each order, none below the one before.",
        )
    if max_bytes is not None and max_bytes < SMALLEST:
        raise ConfigError(f"max_bytes={max_bytes} holds no table.", remedy=f"Use at least {SMALLEST}, or leave it out.")
