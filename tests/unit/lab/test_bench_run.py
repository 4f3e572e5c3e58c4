"""Order, warm-up and equal lengths of a benchmark."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.lab.bench.plan import Arm, BenchPlan, cells_of, turn_order
from paradraft.lab.bench.run import run_bench
from paradraft.lab.prompts import Prompt, PromptSet
from support.speakers import ManualClock, ScriptedSpeaker


def prompt_set(count: int) -> PromptSet:
    prompts = tuple(
        Prompt(id=f"p{n}", category="even" if n % 2 == 0 else "odd", token_ids=(n * 100,)) for n in range(count)
    )
    return PromptSet(name="test", sha256="0" * 64, prompts=prompts, repeated=())


def arms(clock: ManualClock) -> list[Arm]:
    plain = Arm(name="plain", speaker=ScriptedSpeaker(clock, 0.2), is_speculative=False)
    return [plain, Arm(name="fixed", speaker=ScriptedSpeaker(clock, 0.1), gamma=4)]


def test_arms_take_turns_forwards_and_backwards_on_the_same_prompt():
    clock = ManualClock()
    runs = run_bench(arms(clock), prompt_set(1), BenchPlan(max_tokens=8, repeats=4), clock=clock)
    assert [run.arm for run in runs] == ["plain", "fixed", "fixed", "plain"] * 2


def test_turn_order_of_three_arms_keeps_the_middle_one_in_the_middle():
    clock = ManualClock()
    three = [*arms(clock), Arm(name="adaptive", speaker=ScriptedSpeaker(clock, 0.1))]
    assert [arm.name for arm in turn_order(three, 1)] == ["adaptive", "fixed", "plain"]


def test_every_arm_is_warmed_up_before_the_first_timed_run():
    clock = ManualClock()
    two = arms(clock)
    runs = run_bench(two, prompt_set(2), BenchPlan(max_tokens=8, repeats=1, concurrency=(1, 2)), clock=clock)
    for arm in two:
        asked = arm.speaker.asked
        assert [len(prompts) for prompts, _ in asked[:2]] == [1, 2]
        assert len(asked) == 2 + sum(run.arm == arm.name for run in runs)


def test_lengths_are_forced_equal_and_seeds_are_those_of_the_prompt():
    clock = ManualClock()
    two = arms(clock)
    run_bench(two, prompt_set(2), BenchPlan(max_tokens=8, repeats=1, temperature=0.7, seed=5), clock=clock)
    for arm in two:
        params = [each for _, group in arm.speaker.asked for each in group]
        assert all(each.ignore_eos and each.max_tokens == 8 and each.temperature == 0.7 for each in params)
        assert {each.seed for each in params} == {5, 6}
    assert all(not each.speculate for _, group in two[0].speaker.asked for each in group)
    assert all(each.gamma == 4 for _, group in two[1].speaker.asked for each in group)


def test_runs_carry_the_seconds_of_their_own_cell():
    clock = ManualClock()
    runs = run_bench(arms(clock), prompt_set(1), BenchPlan(max_tokens=10, repeats=1), clock=clock)
    assert {run.arm: run.seconds for run in runs} == {"plain": pytest.approx(2.0), "fixed": pytest.approx(1.0)}


def test_verb_seconds_are_what_the_run_added_not_lifetime_totals():
    clock = ManualClock()
    totals = {"score": 100.0}
    speaker = ScriptedSpeaker(clock, 0.1)
    arm = Arm(
        name="plain", speaker=speaker, verb_seconds=lambda: {verb: spent + clock.now for verb, spent in totals.items()}
    )
    [run] = run_bench([arm], prompt_set(1), BenchPlan(max_tokens=10, repeats=1), clock=clock)
    assert run.verb_seconds["score"] == pytest.approx(1.0)


def test_short_lengths_are_cells_of_their_own_with_one_row():
    plan = BenchPlan(max_tokens=64, concurrency=(1, 2), short_lengths=(8, 64, 100))
    cells = cells_of(plan, prompt_set(2))
    assert [(cell.max_tokens, cell.concurrency) for cell in cells] == [(8, 1), (8, 1), (64, 1), (64, 1), (64, 2)]


def test_every_cell_of_a_concurrency_has_the_same_load():
    cells = cells_of(BenchPlan(max_tokens=8, concurrency=(4,)), prompt_set(11))
    assert [cell.prompts for cell in cells] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_more_rows_than_prompts_are_refused_with_a_remedy():
    with pytest.raises(ConfigError, match=r"concurrency 8 needs .* raise --limit"):
        cells_of(BenchPlan(max_tokens=8, concurrency=(1, 8)), prompt_set(3))


def test_progress_ends_at_its_total():
    clock = ManualClock()
    seen: list[tuple[int, int]] = []
    run_bench(
        arms(clock),
        prompt_set(2),
        BenchPlan(max_tokens=4, repeats=2),
        clock=clock,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(n, 8) for n in range(1, 9)]
