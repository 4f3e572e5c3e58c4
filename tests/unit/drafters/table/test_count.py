from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.layout import MAX_COUNT, MAX_ENTRIES, Table, key_of
from paradraft.drafters.table.lookup import TableLookup

VOCAB = 50


def table_of(*texts: list[int], **options: object) -> Table:
    return count_table([CountedText(ids=ints(text)) for text in texts], vocab_size=VOCAB, **options)  # type: ignore[arg-type]


def counted(table: Table, context: list[int], length: int) -> tuple[int, dict[int, int]]:
    """Return the total and the counts after the last `length` tokens of a context."""
    [finder] = [finder for finder in TableLookup(table)._finders if finder.length == length]
    total, counts = finder.find(key_of(context[::-1], length))
    return total, dict(counts)


def test_every_continuation_is_counted_at_every_length() -> None:
    table = table_of([1, 2, 3, 1, 2, 4, 1, 2, 3], orders=(1, 2), min_counts=(1, 1))
    assert counted(table, [2], 1) == (3, {3: 2, 4: 1})
    assert counted(table, [1, 2], 2) == (3, {3: 2, 4: 1})
    assert counted(table, [3, 1], 2) == (1, {2: 1})
    assert table.num_tokens == 9


def test_counts_agree_with_counting_by_hand_on_random_texts() -> None:
    rng = np.random.default_rng(3)
    texts = [rng.integers(0, 4, 300).tolist() for _ in range(3)]
    table = table_of(*texts, orders=(1, 3), min_counts=(1, 1))
    for context in ([0, 1, 2], [3, 3, 3], [1, 0, 1]):
        expected: dict[int, int] = {}
        for text in texts:
            for place in range(3, len(text)):
                if text[place - 3 : place] == context:
                    expected[text[place]] = expected.get(text[place], 0) + 1
        assert counted(table, context, 3) == (sum(expected.values()), expected)


def test_texts_do_not_run_into_each_other() -> None:
    table = table_of([1, 2], [3, 4], orders=(1,), min_counts=(1,))
    assert counted(table, [2], 1) == (0, {})
    assert counted(table, [3], 1) == (1, {4: 1})


def test_prompts_are_context_and_no_continuations() -> None:
    table = count_table(
        [CountedText(ids=ints([1, 2, 3, 4]), prompt_len=2)], vocab_size=VOCAB, orders=(1, 2), min_counts=(1, 1)
    )
    assert counted(table, [1], 1) == (0, {})
    assert counted(table, [1, 2], 2) == (1, {3: 1})
    assert table.num_tokens == 2


def test_rare_long_contexts_are_left_out() -> None:
    table = table_of([1, 2, 3, 1, 2, 3, 9, 8, 7], orders=(1, 2), min_counts=(1, 2))
    assert counted(table, [1, 2], 2) == (2, {3: 2})
    assert counted(table, [9, 8], 2) == (0, {})
    assert counted(table, [9, 8], 1) == (1, {7: 1})


def test_only_the_best_continuations_are_kept_and_the_total_counts_all() -> None:
    text = [word for other in range(2, 2 + 2 * MAX_ENTRIES) for word in (1, other)] + [1, 5, 1, 5]
    total, counts = counted(table_of(text, orders=(1,), min_counts=(1,)), [1], 1)
    assert total == 2 * MAX_ENTRIES + 2
    assert len(counts) == MAX_ENTRIES
    assert counts[5] == 3


def test_a_context_more_frequent_than_a_count_can_hold_keeps_its_shares() -> None:
    text = [1, 2, 1, 3] * MAX_COUNT
    total, counts = counted(table_of(text, orders=(1,), min_counts=(1,)), [1], 1)
    assert total == MAX_COUNT
    assert counts[2] / total == pytest.approx(0.5, abs=0.01)


def test_a_size_limit_drops_what_was_seen_least_and_never_the_end_of_a_kept_context() -> None:
    rng = np.random.default_rng(5)
    texts = [(rng.integers(0, 40, 900) * rng.integers(0, 2, 900)).tolist() for _ in range(4)]
    whole = table_of(*texts)
    small = table_of(*texts, max_bytes=whole.num_bytes // 3)
    assert 0 < small.num_bytes <= whole.num_bytes // 3
    num_long = 0
    finders = TableLookup(small)._finders
    for text in texts:
        for place in range(6, len(text)):
            context = text[place - 6 : place][::-1]
            known = [finder.find(key_of(context, finder.length))[0] > 0 for finder in finders]
            assert known == sorted(known, reverse=True)
            num_long += known[2]
    assert num_long > 0


def test_discounts_lie_below_the_counts_they_are_taken_off() -> None:
    rng = np.random.default_rng(1)
    for order in table_of(*[rng.zipf(1.5, 2000).clip(0, VOCAB - 1).tolist() for _ in range(3)]).orders:
        assert all(0.0 < discount < most for discount, most in zip(order.discounts, (1.0, 2.0, 3.0), strict=True))


def test_an_empty_table_knows_nothing() -> None:
    table = table_of()
    assert TableLookup(table).shares([1, 2, 3], None) == {}
    assert table.num_tokens == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"orders": (2, 1), "min_counts": (1, 1)}, "orders"),
        ({"orders": (0,), "min_counts": (1,)}, "orders"),
        ({"orders": (1, 2), "min_counts": (1,)}, "min_counts"),
        ({"orders": (1, 2), "min_counts": (2, 1)}, "min_counts"),
        ({"max_bytes": 10}, "max_bytes"),
    ],
)
def test_what_cannot_be_counted_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        table_of([1, 2, 3], **options)


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match="vocabulary"):
        table_of([1, VOCAB])
