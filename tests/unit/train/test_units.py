"""Units of work: own ones first, then what nobody did."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.train.ports import unwatched
from paradraft.train.units import Share


def test_a_part_does_its_own_units_first_and_then_the_others() -> None:
    assert list(Share(1, 2).missing(5, lambda _: False, unwatched)) == [1, 3, 0, 2, 4]


def test_units_done_meanwhile_are_left_out() -> None:
    done: set[int] = set()
    first, second = (Share(part, 2).missing(6, done.__contains__, unwatched) for part in (0, 1))
    made = []
    for unit in first:
        made.append(unit)
        done.add(unit)
        other = next(second, None)
        if other is not None:
            made.append(other)
            done.add(other)
    assert sorted(made) == list(range(6))


def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[tuple[int, int]] = []
    list(Share().missing(2, lambda unit: unit == 0, lambda done, total: seen.append((done, total))))
    assert seen == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(("part", "parts"), [(2, 2), (-1, 2), (0, 0)])
def test_a_part_that_does_not_exist_is_refused(part: int, parts: int) -> None:
    with pytest.raises(ConfigError, match="Count parts from 0"):
        Share(part, parts)
