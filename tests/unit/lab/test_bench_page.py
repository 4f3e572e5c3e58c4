"""The written report: JSON fields and a page that stands alone."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from paradraft.lab.bench.page import build_page
from paradraft.lab.bench.plan import Arm, BenchPlan
from paradraft.lab.bench.records import BenchReport
from paradraft.lab.bench.report import Measured, build_report
from paradraft.lab.bench.run import run_bench
from paradraft.lab.prompts import Prompt, PromptSet
from paradraft.lab.provenance import Provenance
from support.speakers import ManualClock, ScriptedSpeaker, counting_up, stats_of

ARM_FIELDS = {
    "name",
    "concurrency",
    "tokens",
    "seconds",
    "tokens_per_second",
    "tau",
    "acceptance_rate",
    "effective_acceptance_rate",
    "acceptance_by_position",
    "by_output_length",
    "identical_to_plain",
    "differences",
}


@pytest.fixture(scope="module")
def report() -> BenchReport:
    clock = ManualClock()
    prompts = tuple(Prompt(id=f"<p{n}>", category="ab"[n % 2], token_ids=(n * 100,)) for n in range(4))
    prompt_set = PromptSet(name="test", sha256="0" * 64, prompts=prompts, repeated=("twin",))
    plain = ScriptedSpeaker(clock, 0.2, margins={1: 0.0, 7: 3.0})
    wrong = ScriptedSpeaker(clock, 0.1, answer=lambda prompt, params: [7, *counting_up(prompt, params)[1:]])
    arms = [Arm(name="plain", speaker=plain, is_speculative=False), Arm(name="wrong", speaker=wrong, gamma=4)]
    for gamma in (2, 4):
        stats = stats_of([gamma, 0], gamma=gamma)
        arms.append(Arm(name=f"fixed-{gamma}", speaker=ScriptedSpeaker(clock, 0.1, stats=stats), gamma=gamma))
    plan = BenchPlan(max_tokens=80, repeats=2, concurrency=(1, 2), short_lengths=(8,))
    runs = run_bench(arms, prompt_set, plan, clock=clock)
    provenance = Provenance(
        versions={"paradraft": "1"},
        commit="abc",
        machine={"cpu": "C"},
        command="paradraft bench",
        started_at="2026",
        model={"name": "m", "sha256": "f" * 64},
        dtype="fp32",
        settings={"gamma": 4},
    )
    return build_report(Measured(arms=arms, plain=plain, runs=runs, prompt_set=prompt_set, plan=plan), provenance)


def test_json_has_the_documented_fields_for_each_arm(report):
    written = json.loads(json.dumps(asdict(report)))
    for arm in written["arms"]:
        assert arm.keys() >= ARM_FIELDS
        assert set(arm["tokens_per_second"]) == {"median", "min", "max"}
    wrong = next(arm for arm in written["arms"] if arm["name"] == "wrong")
    assert set(wrong["differences"][0]) == {"prompt", "position", "margin", "place"}
    assert written["prompt_ids"] == ["<p0>", "<p1>", "<p2>", "<p3>"]
    assert written["provenance"]["command"] == "paradraft bench"
    assert written["format"] == "paradraft-bench-1"


def test_page_holds_its_pictures_and_loads_nothing(report):
    page = build_page(report)
    assert page.count("<svg") >= 4  # speed-up, acceptance, gamma curve, categories
    assert "<img" not in page
    assert "src=" not in page
    assert "<script" not in page


def test_page_says_why_a_speedup_is_refused_and_never_shows_one_there(report):
    page = build_page(report)
    assert "No speed-up for wrong over plain at concurrency 1" in page
    assert "near-tie bound 0.001" in page


def test_page_escapes_what_comes_from_files(report):
    assert "<p0>" not in build_page(report)
    assert "&lt;p0&gt;" in build_page(report)


def test_repeated_prompts_are_reported(report):
    assert report.repeated_prompts == ("twin",)
    assert "repeated prompts were left out" in build_page(report)
