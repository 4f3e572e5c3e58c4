"""Counts of how varied texts are."""

from __future__ import annotations

import pytest

from paradraft.train.diversity import measure_diversity


def test_counts_of_a_small_sample() -> None:
    found = measure_diversity(["One two three four.", "one TWO three five", "six", "seven eight nine ten"])
    assert (found.num_texts, found.num_words, found.distinct_words) == (4, 13, 10)
    assert found.distinct_openings == 0.75
    assert found.near_duplicates == 0.25


def test_entropy_is_that_of_the_words_and_of_the_first_ones_alone_where_asked() -> None:
    assert measure_diversity(["a b c d"]).entropy == pytest.approx(2.0)
    assert measure_diversity(["a a", "a a"]).entropy == 0.0
    assert measure_diversity(["a b", "c d"], most_words=2).entropy == pytest.approx(1.0)
    assert measure_diversity(["a b", "c d"], most_words=2).distinct_words == 2


def test_no_texts_are_not_varied() -> None:
    found = measure_diversity([])
    assert (found.num_texts, found.entropy, found.near_duplicates) == (0, 0.0, 0.0)
