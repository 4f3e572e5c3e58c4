from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.lookup import TableLookup
from paradraft.drafters.table.overlay import Overlay, TenantCounts


def lookup_of(*texts: list[int], **options: object) -> TableLookup:
    table = count_table([CountedText(ids=ints(text)) for text in texts], vocab_size=64, **options)  # type: ignore[arg-type]
    return TableLookup(table)


def test_the_formula_by_hand() -> None:
    """Discounts are 0.5, 0.75 and 1 where the counts are too few to estimate them."""
    lookup = lookup_of([1, 2, 3, 9, 2, 3, 9, 2, 4], orders=(1, 2), min_counts=(1, 1))
    longer = {3: (1 - 0.5) / 2, 4: (1 - 0.5) / 2}  # after 9, 2
    left = 1.0 - sum(longer.values())
    shorter = {3: (2 - 0.75) / 3, 4: (1 - 0.5) / 3}  # after 2
    expected = {token: longer[token] + left * shorter[token] for token in (3, 4)}
    assert lookup.shares([2, 9], None) == pytest.approx(expected)


def test_chances_sum_to_less_than_one_and_name_few_tokens() -> None:
    rng = np.random.default_rng(2)
    text = rng.integers(0, 60, 4000).tolist()
    lookup = lookup_of(text)
    for place in range(10, 300):
        shares = lookup.shares(text[place - 6 : place][::-1], None)
        assert 0.0 < sum(shares.values()) < 1.0
        assert len(shares) <= 16


def test_a_longer_context_overrules_a_shorter_one() -> None:
    lookup = lookup_of([5, 2, 7] * 2 + [1, 2, 8] * 6)
    rare, usual = lookup.shares([2, 5], None), lookup.shares([2, 1], None)
    assert max(rare, key=rare.__getitem__) == 7
    assert max(usual, key=usual.__getitem__) == 8


def test_learned_counts_add_to_the_tables() -> None:
    lookup = lookup_of([1, 2, 1, 2, 1, 2])
    overlay = Overlay(lengths=lookup.lengths, max_contexts=1000)
    for _ in range(9):
        overlay.learn("a", ints([1, 3]), 1)
    before, after = lookup.shares([1], None), lookup.shares([1], overlay.of("a"))
    assert max(before, key=before.__getitem__) == 2
    assert max(after, key=after.__getitem__) == 3
    assert after[2] < before[2]


def test_what_is_kept_of_a_lookup_follows_what_is_learned_afterwards() -> None:
    lookup = lookup_of([1, 2, 1, 2, 1, 2])
    overlay = Overlay(lengths=lookup.lengths, max_contexts=1000)
    overlay.learn("a", ints([1, 3]), 1)
    first = lookup.shares([1], overlay.of("a"))
    assert lookup.shares([1], overlay.of("a")) == first
    overlay.learn("a", ints([1, 3]), 1)
    assert lookup.shares([1], overlay.of("a"))[3] > first[3]
    assert 3 not in lookup.shares([1], None)


def test_what_was_learned_is_known_to_its_tenant_alone() -> None:
    overlay = Overlay(lengths=(1, 2), max_contexts=1000)
    overlay.learn("a", ints([7, 8, 9]), 1)
    assert overlay.of("b") is None
    empty = lookup_of()
    assert empty.shares([8, 7], overlay.of("a"))[9] > 0
    assert empty.shares([8, 7], overlay.of("b")) == {}


def test_the_overlay_is_bounded_over_all_tenants_and_the_oldest_goes_first() -> None:
    overlay = Overlay(lengths=(1, 2), max_contexts=40)
    rng = np.random.default_rng(1)
    for number in range(60):
        overlay.learn(f"tenant {number % 3}", ints(rng.integers(0, 60, 30)), 1)
        assert overlay.num_contexts <= 40
        assert overlay.num_contexts == sum(len(counts) for counts in overlay._tenants.values())
    overlay.learn("new", ints([1, 2, 3]), 1)
    counts = overlay.of("new")
    assert isinstance(counts, TenantCounts)
    assert lookup_of().shares([2, 1], counts)[3] > 0


def test_old_counts_fade_so_that_the_present_is_heard() -> None:
    overlay, empty = Overlay(lengths=(1,), max_contexts=100), lookup_of(orders=(1,), min_counts=(1,))
    for _ in range(500):
        overlay.learn("", ints([1, 2]), 1)
    for _ in range(70):
        overlay.learn("", ints([1, 3]), 1)
    shares = empty.shares([1], overlay.of(""))
    assert shares[3] > shares.get(2, 0.0)


def test_nothing_is_kept_where_nothing_may_be() -> None:
    overlay = Overlay(lengths=(1,), max_contexts=0)
    overlay.learn("", ints([1, 2, 3]), 1)
    assert overlay.num_contexts == overlay.num_tenants == 0
