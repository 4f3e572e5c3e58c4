from __future__ import annotations

import pytest

from paradraft.engine.statistics import Round, Tally


def chain_round(drafted: int, accepted: int, *, kept: int | None = None, is_counted: bool = True) -> Round:
    return Round(
        node_depths=tuple(range(1, drafted + 1)),
        node_sources=(1,) * drafted,
        path=tuple(range(accepted)),
        num_kept=accepted + 1 if kept is None else kept,
        is_counted=is_counted,
    )


def test_ten_rounds_counted_by_hand() -> None:
    tally = Tally()
    for accepted in (4, 0, 2, 1, 4, 3, 0, 2, 2, 1):
        tally.add_round(chain_round(4, accepted))
    stats = tally.snapshot()
    assert (stats.passes, stats.rounds, stats.round_tokens) == (10, 10, 29)
    assert (stats.drafted, stats.accepted) == (40, 19)
    assert stats.tau == pytest.approx(2.9)
    assert stats.acceptance_rate == pytest.approx(19 / 40)
    assert stats.drafted_by_depth == (10, 10, 10, 10)
    assert stats.accepted_by_depth == (8, 6, 3, 2)


def test_plain_passes_have_a_tau_of_one() -> None:
    tally = Tally()
    for _ in range(3):
        tally.add_round(chain_round(0, 0))
    assert tally.snapshot().tau == 1.0
    assert tally.snapshot().acceptance_rate == 0.0


def test_accepted_tokens_behind_a_stop_are_dropped_and_the_round_is_not_counted() -> None:
    tally = Tally()
    tally.add_round(chain_round(4, 4, kept=2, is_counted=False))
    stats = tally.snapshot()
    assert (stats.dropped, stats.rounds, stats.passes) == (2, 0, 1)
    assert stats.effective_acceptance_rate == pytest.approx(2 / 4)


def test_accepted_tokens_computed_again_count_against_the_effective_rate() -> None:
    tally = Tally()
    tally.add_admission(cached=0, recomputed=0)
    tally.add_round(chain_round(4, 4))
    tally.add_preemption()
    tally.add_admission(cached=1, recomputed=3)
    stats = tally.snapshot()
    assert stats.effective_acceptance_rate == pytest.approx(1 / 4)
    assert stats.preemptions == 1
    assert stats.cached_prompt_tokens == 0


def test_a_tree_counts_levels_once_and_sources_by_bit() -> None:
    tally = Tally()
    tally.add_round(
        Round(node_depths=(1, 1, 2), node_sources=(0b01, 0b10, 0b11), path=(1, 2), num_kept=3, is_counted=True)
    )
    stats = tally.snapshot()
    assert stats.drafted == 3
    assert stats.drafted_by_depth == (1, 1)
    assert stats.accepted_by_depth == (1, 1)
    assert stats.drafted_by_source == (2, 2)
    assert stats.accepted_by_source == (1, 2)
