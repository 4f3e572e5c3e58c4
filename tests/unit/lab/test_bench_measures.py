"""Ten scripted steps with four drafts each, counted by hand."""

from __future__ import annotations

import pytest

from paradraft.core.events import GenerationStats
from paradraft.lab.bench.measures import (
    acceptance_by_position,
    add_stats,
    bucket_name,
    latency,
    mean_draft_len,
    steps_of,
    tokens_per_second,
)
from paradraft.lab.bench.plan import Cell
from paradraft.lab.bench.run import Run
from support.speakers import stats_of

ACCEPTS = [4, 0, 2, 1, 3, 4, 0, 0, 2, 4]  # 20 of 40


def run(seconds: float, *, repeat: int = 0, tokens: int = 10) -> Run:
    return Run(
        arm="plain",
        repeat=repeat,
        cell=Cell(concurrency=1, max_tokens=tokens, prompts=(0,)),
        seconds=seconds,
        token_ids=((1,) * tokens,),
        stats=(GenerationStats(),),
        num_failed=0,
        verb_seconds={},
    )


def test_ten_scripted_steps_give_the_figures_counted_by_hand():
    stats = stats_of(ACCEPTS, gamma=4)
    assert (stats.rounds, stats.round_tokens, stats.drafted, stats.accepted) == (10, 30, 40, 20)
    assert stats.tau == 3.0
    assert stats.acceptance_rate == 0.5
    assert stats.effective_acceptance_rate == 0.5
    assert acceptance_by_position(stats) == (0.7, 0.6, 0.4, 0.3)
    assert mean_draft_len(stats) == 4.0


def test_a_round_cut_by_the_limit_leaves_tau_and_lowers_effective_acceptance():
    stats = stats_of(ACCEPTS, gamma=4, last_kept=2)
    assert (stats.rounds, stats.round_tokens, stats.dropped) == (9, 25, 2)
    assert stats.tau == pytest.approx(25 / 9)
    assert stats.acceptance_rate == 0.5
    assert stats.effective_acceptance_rate == 18 / 40


def test_predicted_steps_are_tokens_by_one_plus_gamma_times_acceptance():
    steps = steps_of(stats_of(ACCEPTS, gamma=4), 4)
    assert steps.measured == 10
    assert steps.predicted == 10.0
    assert steps.predicted_speed_up == 3.0


def test_sums_add_counts_of_unequal_depth_and_weigh_rates_by_tokens():
    whole = add_stats([stats_of([1, 1], gamma=1), stats_of([0, 0, 0, 3], gamma=3)])
    assert whole.drafted_by_depth == (6, 4, 4)
    assert whole.accepted_by_depth == (3, 1, 1)
    assert whole.acceptance_rate == 5 / 14  # not the mean of 1.0 and 0.25
    assert whole.tau == 11 / 6


def test_no_drafts_mean_tau_one_and_no_division_by_zero():
    stats = add_stats([GenerationStats(passes=3, rounds=3, round_tokens=3)])
    assert stats.tau == 1.0
    assert acceptance_by_position(stats) == ()
    assert mean_draft_len(stats) == 0.0
    assert steps_of(stats, 0.0).predicted == 3.0


def test_throughput_divides_all_tokens_by_all_seconds_of_a_repeat():
    runs = [run(1.0, tokens=10), run(3.0, tokens=10), run(2.0, repeat=1, tokens=10), run(2.0, repeat=1, tokens=30)]
    spread = tokens_per_second(runs)
    assert (spread.min, spread.median, spread.max) == (5.0, 7.5, 10.0)


def test_latency_reports_mean_percentiles_and_deviation():
    figures = latency([run(1.0), run(3.0)])
    assert (figures.mean, figures.p50, figures.deviation) == (2.0, 2.0, 1.0)
    assert figures.p99 == pytest.approx(2.98)


@pytest.mark.parametrize(
    ("length", "name"),
    [(1, "1-10"), (10, "1-10"), (11, "11-64"), (64, "11-64"), (65, "65-256"), (256, "65-256"), (257, "over 256")],
)
def test_output_lengths_fall_into_four_buckets(length, name):
    assert bucket_name(length) == name
