from __future__ import annotations

import numpy as np

from paradraft.core.arrays import ints
from paradraft.drafters.shared import TENANT_COST, SharedTexts


def texts(max_tokens: int) -> SharedTexts:
    return SharedTexts(orders=(1, 2), max_tokens=max_tokens)


def test_the_oldest_text_goes_first_whoever_owns_it() -> None:
    shared = texts(2 * TENANT_COST + 25)
    shared.add("a", ints([1] * 9))
    shared.add("b", ints([2] * 9))
    shared.add("b", ints([3] * 9))
    assert shared.of("a") is None
    assert shared.num_tenants == 1
    shared.add("b", ints([4] * 9))
    index = shared.of("b")
    assert index is not None
    assert index.recent(60) == [-1, *[4] * 9, -1, *[3] * 9, -1, *[2] * 9]


def test_the_budget_holds_over_many_tenants() -> None:
    rng = np.random.default_rng(0)
    shared = texts(5000)
    for _ in range(400):
        shared.add(f"tenant {rng.integers(40)}", ints(rng.integers(0, 9, int(rng.integers(1, 300)))))
        assert shared.num_tokens <= 5000
    held = [shared.of(f"tenant {number}") for number in range(40)]
    assert sum(len(index) + TENANT_COST for index in held if index is not None) == shared.num_tokens
    assert shared.num_tenants <= 5000 // TENANT_COST
    assert sum(index.num_slots for index in held if index is not None) <= 8 * 5000


def test_a_text_longer_than_the_budget_keeps_its_end() -> None:
    shared = texts(TENANT_COST + 11)
    shared.add("a", ints(range(100)))
    index = shared.of("a")
    assert index is not None
    assert index.recent(3) == [-1, 99, 98]
    assert len(index) == 11


def test_empty_texts_leave_no_trace() -> None:
    shared = texts(1000)
    shared.add("a", ints([]))
    assert shared.num_tokens == shared.num_tenants == 0
