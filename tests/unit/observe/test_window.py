from __future__ import annotations

import math

import pytest

from paradraft.observe.window import AcceptanceWindow


def window(*rates: float, tried: int = 1000) -> AcceptanceWindow:
    """Return a window with a rate in each slot of 5 seconds from 0."""
    found = AcceptanceWindow()
    for at, rate in enumerate(rates):
        accepted = round(rate * tried)
        found.note(accepted, tried - accepted, 5.0 * at + 1.0)
    return found


def test_steady_acceptance_has_no_deviation() -> None:
    assert window(0.7, 0.7, 0.7, 0.7).deviation(19.0) == 0.0


def test_a_deviation_counted_by_hand() -> None:
    assert window(0.6, 0.7, 0.8).deviation(14.0) == pytest.approx(math.sqrt(0.02 / 3))


def test_slots_weigh_what_they_tried() -> None:
    found = window(0.5, 0.5)
    found.note(1500, 500, 11.0)  # 0.75 of 2000
    mean = (500 + 500 + 1500) / 4000
    variance = (2000 * (0.5 - mean) ** 2 + 2000 * (0.75 - mean) ** 2) / 4000
    assert found.deviation(12.0) == pytest.approx(math.sqrt(variance))


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    found = window(0.1, *[0.7] * 4)
    assert found.deviation(24.0) > 0.1
    assert found.deviation(60.0) == 0.0
    assert math.isnan(found.deviation(300.0))


def test_too_little_tells_nothing() -> None:
    assert math.isnan(AcceptanceWindow().deviation(0.0))
    assert math.isnan(window(0.7, 0.7).deviation(9.0))
    assert math.isnan(window(0.7, 0.2, 0.9, tried=100).deviation(14.0))


def test_memory_is_a_minute() -> None:
    found = window(*[0.5] * 500)
    assert len(found._slots) == 12
