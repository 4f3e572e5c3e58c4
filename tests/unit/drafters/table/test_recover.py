"""Counts told again by a table: going on from it is as good as having kept the texts."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.layout import MAX_ENTRIES, Table
from paradraft.drafters.table.recover import recover_counts

VOCAB = 40
ORDERS, ONCE = (1, 2, 3, 4, 6), (1, 1, 1, 1, 1)


def texts_of(seed: int, count: int, alphabet: int = MAX_ENTRIES) -> list[CountedText]:
    """Return texts over few enough tokens that no continuation is left out of a table."""
    rng = np.random.default_rng(seed)
    return [CountedText(ids=ints(rng.integers(0, alphabet, int(rng.integers(1, 60))))) for _ in range(count)]


def counted(texts: list[CountedText], base: Table | None = None, **options: object) -> Table:
    given = {"orders": ORDERS, "min_counts": ONCE, **options}
    return count_table(texts, vocab_size=VOCAB, base=base, **given)  # type: ignore[arg-type]


def arrays_of(table: Table) -> list[tuple[str, list[int]]]:
    return [(name, array.tolist()) for order in table.orders for name, array in order.arrays().items()]


@pytest.mark.parametrize("seed", range(5))
def test_going_on_from_a_table_is_counting_all_texts_at_once(seed):
    first, second = texts_of(seed, 12), texts_of(seed + 100, 9)
    grown = counted(second, counted(first))
    at_once = counted([*first, *second])
    assert arrays_of(grown) == arrays_of(at_once)
    assert grown.num_tokens == at_once.num_tokens
    assert [order.discounts for order in grown.orders] == [order.discounts for order in at_once.orders]


def test_a_table_alone_tells_itself_again():
    table = counted(texts_of(3, 20))
    assert arrays_of(counted([], table)) == arrays_of(table)


def test_rare_contexts_that_were_left_out_stay_out():
    table = counted(texts_of(3, 20), min_counts=(1, 1, 2, 2, 2))
    told = recover_counts(table)
    assert [len(told[order.length].words) for order in table.orders] == [len(order.tokens) for order in table.orders]


def test_what_came_too_rarely_to_be_kept_is_not_invented():
    table = counted(texts_of(5, 30, alphabet=VOCAB))
    told = recover_counts(table)
    for order in table.orders:
        assert int(told[order.length].counts.sum()) <= int(order.counts.astype(int).sum())
        assert len(told[order.length].words) > 0.9 * len(order.tokens)


@pytest.mark.parametrize(
    "options", [{"orders": (1, 2, 3), "min_counts": (1, 1, 1)}, {"orders": (2,), "min_counts": (1,)}]
)
def test_a_table_of_other_lengths_is_refused(options):
    with pytest.raises(ConfigError, match="contexts of"):
        counted(texts_of(1, 3), counted(texts_of(2, 3)), **options)


def test_a_table_of_another_vocabulary_is_refused():
    other = count_table(texts_of(2, 3), vocab_size=VOCAB + 1, orders=ORDERS, min_counts=ONCE)
    with pytest.raises(ConfigError, match="same tokenizer"):
        counted(texts_of(1, 3), other)
