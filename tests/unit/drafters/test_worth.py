"""A source that costs a pass is asked where the tokens it brings are worth the time it takes, and nowhere else."""

from __future__ import annotations

import pytest

from paradraft.drafters.worth import EDGES, HOPE, MOST_DOUBLINGS, PROBE_EVERY, Class, Worth, class_of

LOW, HIGH = Class(False, 0), Class(False, len(EDGES))


def measured(gains: dict[Class, float], *, seconds: float = 0.01, rows: int = 1) -> Worth:
    """Return what has seen gains often, rounds of these seconds, and 100 tokens a second."""
    worth = Worth()
    for _ in range(60):
        for kind, gain in gains.items():
            worth.note_gain(kind, gain)
        worth.note_round(rows, seconds)
        worth.note_step(3, 0.03)
    return worth


def test_before_anything_is_known_everybody_is_asked() -> None:
    assert Worth().choose([LOW, None, HIGH]) == [True, False, True]


def test_tokens_have_to_be_worth_the_seconds() -> None:
    gains = {LOW: 1.5, HIGH: 0.2}
    assert measured(gains, seconds=0.010).cost(1) == pytest.approx(1.0)
    assert measured(gains, seconds=0.010).choose([LOW]) == [True]
    assert measured(gains, seconds=0.010).choose([HIGH]) == [False]
    assert measured(gains, seconds=0.020).choose([LOW]) == [False]
    assert measured(gains, seconds=0.001).choose([HIGH]) == [True]


def test_rows_that_alone_are_not_worth_a_round_may_be_together() -> None:
    worth = measured({LOW: 0.8, HIGH: -0.3}, seconds=0.012, rows=2)
    assert worth.choose([LOW]) == [False]
    assert worth.choose([LOW, HIGH, LOW]) == [True, False, True]


def test_a_row_that_is_passed_over_is_probed_ever_more_rarely() -> None:
    worth = measured({HIGH: 0.0})
    asked = [number for number in range(40 * PROBE_EVERY) if worth.choose([HIGH])[0]]
    gaps = [after - before for before, after in zip([-1, *asked], asked, strict=False)]
    assert gaps[:5] == [PROBE_EVERY << times for times in (*range(MOST_DOUBLINGS + 1), MOST_DOUBLINGS)]


def test_what_changed_is_found_by_probes() -> None:
    worth = measured({HIGH: 0.0})
    num_asked = 0
    for _ in range(60 * PROBE_EVERY):
        if worth.choose([HIGH])[0]:
            num_asked += 1
            worth.note_gain(HIGH, 4.0)
    assert num_asked > 10 * PROBE_EVERY


def test_one_stalled_round_is_no_new_price() -> None:
    worth = measured({LOW: 1.5})
    before = worth.cost(1)
    worth.note_round(1, 60.0)
    worth.note_step(3, 60.0)
    assert worth.cost(1) < 1.1 * before


def test_first_rounds_and_steps_that_set_kernels_up_are_not_counted() -> None:
    worth = Worth()
    worth.note_round(1, 10.0)
    worth.note_step(1, 10.0)
    assert worth.cost(1) == 0.0
    worth.note_round(1, 0.01)
    worth.note_step(3, 0.03)
    assert worth.cost(1) == pytest.approx(1.0)


def test_few_measurements_leave_hope_and_many_none() -> None:
    worth = Worth()
    assert worth.gain(LOW) == HOPE
    worth.note_gain(LOW, 0.0)
    assert 0.8 * HOPE < worth.gain(LOW) < HOPE
    for _ in range(400):
        worth.note_gain(LOW, 0.0)
    assert worth.gain(LOW) < 0.1 * HOPE


def test_the_same_measurements_make_the_same_decisions() -> None:
    rows = [[LOW, HIGH], [HIGH], [LOW, None]] * 50
    first, second = (measured({LOW: 1.1, HIGH: 0.3}) for _ in range(2))
    assert [first.choose(row) for row in rows] == [second.choose(row) for row in rows]


def test_rows_are_classed_by_what_they_expect_and_by_their_temperature() -> None:
    levels = [class_of(expected, is_warm=False).level for expected in (1.0, 1.3, 1.9, 9.0)]
    assert levels == [0, 1, 2, len(EDGES)]
    assert class_of(1.0, is_warm=True) != class_of(1.0, is_warm=False)
