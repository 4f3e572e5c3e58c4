"""When a speed-up may be printed, and when it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.lab.bench.compare_arms import bootstrap
from paradraft.lab.bench.plan import Arm, BenchPlan
from paradraft.lab.bench.records import BenchReport
from paradraft.lab.bench.report import Measured, build_report, worst_category
from paradraft.lab.bench.run import run_bench
from paradraft.lab.near_ties import explain, first_difference
from paradraft.lab.prompts import Prompt, PromptSet
from paradraft.lab.provenance import Provenance
from paradraft.verify.coupled import draw
from paradraft.verify.law import law_of
from paradraft.verify.noise import GumbelNoise
from support.speakers import ManualClock, ScriptedSpeaker, counting_up, stats_of
from support.steps import sampling_of

PROMPTS = PromptSet(
    name="test",
    sha256="0" * 64,
    prompts=tuple(Prompt(id=f"p{n}", category="ab"[n % 2], token_ids=(n * 100,)) for n in range(4)),
    repeated=(),
)


def provenance(dtype: str = "fp32") -> Provenance:
    return Provenance(
        versions={},
        commit=None,
        machine={},
        command="bench",
        started_at="2026",
        model={"name": "m"},
        dtype=dtype,
        settings={},
    )


def report_of(fixed: ScriptedSpeaker, plain: ScriptedSpeaker, *, dtype: str = "fp32", **plan) -> BenchReport:
    arms = [Arm(name="plain", speaker=plain, is_speculative=False), Arm(name="fixed", speaker=fixed, gamma=4)]
    arms.append(Arm(name="control", speaker=plain, is_speculative=False))
    settings = BenchPlan(**({"max_tokens": 8, "repeats": 5} | plan))
    runs = run_bench(arms, PROMPTS, settings, clock=plain.clock)
    return build_report(
        Measured(arms=arms, plain=plain, runs=runs, prompt_set=PROMPTS, plan=settings), provenance(dtype)
    )


def other_at(position: int):
    def answer(prompt, params):
        tokens = counting_up(prompt, params)
        if position < len(tokens):
            tokens[position] = 7
        return tokens

    return answer


def of(report: BenchReport, arm: str):
    return next(entry for entry in report.speedups if entry.arm == arm)


def test_equal_answers_give_the_ratio_of_seconds_with_its_interval():
    clock = ManualClock()
    report = report_of(ScriptedSpeaker(clock, 0.1, stats=stats_of([4, 0], gamma=4)), ScriptedSpeaker(clock, 0.2))
    entry = of(report, "fixed")
    assert entry.ratio.median == pytest.approx(2.0)
    assert entry.ratio.low == pytest.approx(2.0)
    assert set(entry.by_category) == {"a", "b"}
    assert worst_category(entry)[1] == pytest.approx(2.0)
    assert of(report, "control").ratio.median == pytest.approx(1.0)
    arm = next(arm for arm in report.arms if arm.name == "fixed")
    assert arm.identical_to_plain
    assert arm.tau == 3.0
    assert arm.break_even_tau == pytest.approx(1.5)


def test_token_counts_that_differ_refuse_the_speedup():
    clock = ManualClock()
    short = ScriptedSpeaker(clock, 0.1, answer=lambda prompt, params: counting_up(prompt, params)[:-1])
    entry = of(report_of(short, ScriptedSpeaker(clock, 0.2, margins={1: 0.0})), "fixed")
    assert entry.ratio is None
    assert entry.refused == "token counts differ"


def test_a_difference_that_is_no_near_tie_refuses_the_speedup():
    clock = ManualClock()
    plain = ScriptedSpeaker(clock, 0.2, margins={4: 0.0, 104: 0.0, 204: 0.0, 304: 0.0, 7: 2.5})
    report = report_of(ScriptedSpeaker(clock, 0.1, answer=other_at(3)), plain)
    entry = of(report, "fixed")
    assert entry.ratio is None
    assert "prompt p0 differs from plain decoding at token 3, which a margin of 2.5 leaves unexplained" in entry.refused
    arm = next(arm for arm in report.arms if arm.name == "fixed")
    assert not arm.identical_to_plain
    assert [(d.prompt, d.position, d.margin) for d in arm.differences] == [(f"p{n}", 3, 2.5) for n in range(4)]


@pytest.mark.parametrize(("dtype", "is_allowed"), [("bf16", True), ("fp32", False)])
def test_the_near_tie_bound_is_that_of_the_dtype(dtype, is_allowed):
    clock = ManualClock()
    plain = ScriptedSpeaker(clock, 0.2, margins={4: 0.0, 104: 0.0, 204: 0.0, 304: 0.0, 7: 0.25})
    report = report_of(ScriptedSpeaker(clock, 0.1, answer=other_at(3)), plain, dtype=dtype)
    assert (of(report, "fixed").ratio is not None) == is_allowed


def test_a_token_far_below_all_others_is_no_near_tie():
    clock = ManualClock()
    plain = ScriptedSpeaker(clock, 0.2, margins={4: 0.0, 104: 0.0, 204: 0.0, 304: 0.0})
    report = report_of(ScriptedSpeaker(clock, 0.1, answer=other_at(3)), plain)
    assert "a margin of 1000 leaves unexplained (logits, near-tie bound 0.001)" in of(report, "fixed").refused


def test_an_answer_that_ends_early_is_never_a_near_tie():
    assert first_difference((1, 2, 3), (1, 2)) == 2
    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 9, 3), (1, 2, 3)) == 1


def test_with_sampling_the_margin_includes_the_noise_of_the_seed():
    clock = ManualClock()
    known, seed = [0, 1, 2, 3], 11
    noise = GumbelNoise(seed, 0).gumbel(ints([4, 7]), position=len(known))
    plain = ScriptedSpeaker(clock, 0.1, margins={4: 0.0, 7: 1.0})
    params = SamplingParams(temperature=0.7, seed=seed)
    difference = explain(plain, "p", [0], params, expected=[1, 2, 3, 4], actual=[1, 2, 3, 7])
    assert difference.position == 3
    assert difference.margin == pytest.approx(abs(1.0 + 0.7 * (noise[0] - noise[1])), rel=1e-6)
    assert difference.place == "first race"


WIDE = 3000


def wide_law(prefix):
    """Logits so flat that most draws fall outside the 256 most probable ids."""
    return np.random.default_rng(list(prefix)).standard_normal(WIDE).astype(np.float32)


class DrawingSpeaker(ScriptedSpeaker):
    """Draws its answers from a law, whose logits another rounding may have moved."""

    def __init__(self, clock, *, shift: float, salt: int = 0) -> None:
        super().__init__(clock, 0.1, answer=self._draw)
        self.shift, self.salt = shift, salt

    def logits_after(self, tokens):
        moved = np.random.default_rng([9, *tokens]).uniform(-self.shift, self.shift, size=WIDE)
        return (wide_law(tokens) + moved).astype(np.float32)

    def _draw(self, prompt, params):
        known = list(prompt)
        for _ in range(params.max_tokens):
            sampling = sampling_of(params, prompt_len=1, seed=params.seed + self.salt)
            law = law_of(self.logits_after(known), sampling, ints([]))
            known.append(draw(law, GumbelNoise(sampling.seed, 0), len(known)))
        return known[1:]


def test_samples_that_rounding_moved_are_near_ties_in_every_race():
    clock = ManualClock()
    report = report_of(
        DrawingSpeaker(clock, shift=0.2), DrawingSpeaker(clock, shift=0.0), dtype="bf16", temperature=1.0, max_tokens=40
    )
    arm = next(arm for arm in report.arms if arm.name == "fixed")
    assert of(report, "fixed").ratio is not None
    assert len(arm.differences) == 4
    assert all(0.0 < difference.margin <= 0.4 for difference in arm.differences)
    assert "tail race" in {difference.place for difference in arm.differences}


def test_samples_of_other_noise_refuse_the_speedup():
    clock = ManualClock()
    other = DrawingSpeaker(clock, shift=0.0, salt=1)
    entry = of(report_of(other, DrawingSpeaker(clock, shift=0.0), dtype="bf16", temperature=1.0), "fixed")
    assert "leaves unexplained (" in entry.refused


def test_failed_answers_refuse_the_speedup():
    clock = ManualClock()
    report = report_of(ScriptedSpeaker(clock, 0.1, finish=FinishReason.ERROR), ScriptedSpeaker(clock, 0.2))
    assert of(report, "fixed").refused == "20 answers failed"


def test_short_outputs_are_reported_apart_and_stay_out_of_the_headline():
    clock = ManualClock()
    slow_start = ScriptedSpeaker(clock, 0.1)
    report = report_of(slow_start, ScriptedSpeaker(clock, 0.2), max_tokens=80, short_lengths=(8, 32), repeats=2)
    arm = next(arm for arm in report.arms if arm.name == "fixed")
    assert [part.name for part in arm.by_output_length] == ["1-10", "11-64", "65-256"]
    assert arm.tokens == 80 * 4 * 2
    assert set(of(report, "fixed").by_output_length) == {"1-10", "11-64", "65-256"}


def test_a_busy_machine_is_named_when_plain_differs_from_itself():
    clock = ManualClock()
    plain = ScriptedSpeaker(clock, 0.2)
    slower = ScriptedSpeaker(clock, 0.25)
    arms = [
        Arm(name="plain", speaker=plain, is_speculative=False),
        Arm(name="control", speaker=slower, is_speculative=False),
    ]
    plan = BenchPlan(max_tokens=8, repeats=2)
    runs = run_bench(arms, PROMPTS, plan, clock=clock)
    report = build_report(Measured(arms=arms, plain=plain, runs=runs, prompt_set=PROMPTS, plan=plan), provenance())
    assert any("differs from itself by 20%" in warning for warning in report.warnings)


def test_drafting_that_outlasts_scoring_is_named():
    clock = ManualClock()
    plain = ScriptedSpeaker(clock, 0.2)
    fixed = ScriptedSpeaker(clock, 0.1)
    arms = [
        Arm(name="plain", speaker=plain, is_speculative=False),
        Arm(name="fixed", speaker=fixed, verb_seconds=lambda: {"propose": 2 * clock.now, "score": clock.now}),
    ]
    plan = BenchPlan(max_tokens=8, repeats=1)
    runs = run_bench(arms, PROMPTS, plan, clock=clock)
    report = build_report(Measured(arms=arms, plain=plain, runs=runs, prompt_set=PROMPTS, plan=plan), provenance())
    assert any("drafting takes longer" in warning for warning in report.warnings)


def test_bootstrap_interval_holds_the_median_and_is_the_same_each_time():
    ratio = bootstrap([1.0, 1.2, 1.1, 1.4, 1.3])
    assert ratio.low <= ratio.median == 1.2 <= ratio.high
    assert 1.0 <= ratio.low < ratio.high <= 1.4
    assert ratio == bootstrap([1.0, 1.2, 1.1, 1.4, 1.3])


def test_a_second_baseline_is_compared_with_plain_and_drafting_arms():
    clock = ManualClock()
    plain, fixed, peer = (ScriptedSpeaker(clock, seconds) for seconds in (0.2, 0.1, 0.4))
    arms = [
        Arm(name="plain", speaker=plain, is_speculative=False),
        Arm(name="fixed", speaker=fixed),
        Arm(name="transformers", speaker=peer, is_speculative=False),
    ]
    plan = BenchPlan(max_tokens=8, repeats=1)
    runs = run_bench(arms, PROMPTS, plan, clock=clock)
    measured = Measured(arms=arms, plain=plain, runs=runs, prompt_set=PROMPTS, plan=plan)
    report = build_report(measured, provenance(), baselines=("plain", "transformers"))
    ratios = {(entry.arm, entry.baseline): entry.ratio.median for entry in report.speedups}
    assert ratios[("plain", "transformers")] == pytest.approx(2.0)
    assert ratios[("fixed", "transformers")] == pytest.approx(4.0)
    assert ratios[("transformers", "plain")] == pytest.approx(0.5)
