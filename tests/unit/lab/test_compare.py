"""Two models on one text, with probabilities that are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from paradraft.core.errors import ModelError
from paradraft.core.events import Logprob, TokenLogprobs
from paradraft.core.sampling import SamplingParams
from paradraft.lab.compare import View, compare_models, verdict_of
from support.byte_tokenizer import ByteTokenizer
from support.speakers import ManualClock, result_of


class KnownModel:
    """Answers "bb..." and holds the same law at every place."""

    def __init__(self, clock: ManualClock, seconds_per_token: float, law: dict[str, float]) -> None:
        self.clock = clock
        self.seconds_per_token = seconds_per_token
        ranked = sorted(law.items(), key=lambda pair: -pair[1])
        self.top = tuple(
            Logprob(token=ord(text), logprob=math.log(p), rank=rank) for rank, (text, p) in enumerate(ranked, 1)
        )

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]):
        [prompt], [wanted] = prompts, params
        answer = [ord("b")] * wanted.max_tokens
        self.clock.now += self.seconds_per_token * len(answer)
        scored = None
        if wanted.prompt_logprobs is not None:
            scored = (None, *(TokenLogprobs(chosen=self.top[0], top=self.top) for _ in prompt[1:]))
        return [replace(result_of(prompt, answer), prompt_logprobs=scored)]


def views(target: dict[str, float], drafter: dict[str, float], *, share: float = 0.1) -> tuple[View, View]:
    clock = ManualClock()
    tokenizer = ByteTokenizer()
    return (
        View(name="target", speaker=KnownModel(clock, 1.0, target), tokenizer=tokenizer),
        View(name="drafter", speaker=KnownModel(clock, share, drafter), tokenizer=tokenizer),
    ), clock


def compare(target, drafter, **options):
    (ours, theirs), clock = views(target, drafter, **options)
    return compare_models(ours, theirs, [ord("a"), ord("b")], max_tokens=4, clock=clock)


def test_equal_models_agree_everywhere():
    law = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.06, "e": 0.04}
    comparison = compare(law, law)
    assert (comparison.agreement, comparison.jaccard) == (1.0, 1.0)
    assert comparison.overlap == pytest.approx(1.0)
    assert comparison.histogram == (0, 0, 0, 4, 0, 0)  # p / q = 1 at each of the four answer places
    assert comparison.verdict.startswith("promise")
    assert all(check.is_met for check in comparison.checks)


def test_p_q_and_ratio_are_of_the_drafters_first_choice():
    comparison = compare({"a": 0.6, "b": 0.3, "c": 0.1}, {"b": 0.5, "a": 0.4, "z": 0.1})
    position = comparison.positions[0]
    assert (position.p, position.q, position.ratio) == tuple(map(pytest.approx, (0.3, 0.5, 0.6)))
    assert position.overlap == pytest.approx(0.4 + 0.3)
    assert position.jaccard == 2 / 4
    assert not position.agrees
    assert comparison.verdict.startswith("refuse")


def test_figures_are_over_the_answer_and_positions_cover_the_prompt_too():
    comparison = compare({"a": 1.0}, {"a": 1.0})
    assert [position.is_answer for position in comparison.positions] == [False, True, True, True, True]
    assert comparison.answer == "bbbb"


def test_a_slow_drafter_fails_its_time_and_fallback_thresholds():
    checks = {check.name: check for check in compare({"a": 1.0}, {"a": 1.0}, share=0.4).checks}
    time, fallback = (
        checks["drafter time per token / target's"],
        checks["target tokens a round of 4 wasted drafts costs"],
    )
    assert time.value == pytest.approx(0.4)
    assert not time.is_met
    assert fallback.value == pytest.approx(2.6)
    assert not fallback.is_met


@pytest.mark.parametrize(
    ("acceptance", "word"), [(0.39, "refuse"), (0.4, "warning"), (0.5, "usable"), (0.65, "healthy"), (0.75, "promise")]
)
def test_acceptance_is_judged_by_the_stated_levels(acceptance, word):
    assert verdict_of(acceptance).startswith(word)


class PairTokenizer(ByteTokenizer):
    """Words of two letters, so its boundaries are every second one of the byte tokenizer's."""

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        return [1000 + place for place in range(len(text) // 2)]

    def token_bytes(self, token: int) -> bytes:
        return b"??" if token >= 1000 else super().token_bytes(token)

    def spelling(self, token: int) -> str | None:
        return f"pair-{token}"


def test_other_tokenizers_are_matched_at_common_boundaries():
    (ours, theirs), clock = views({"a": 1.0}, {"a": 1.0})
    theirs = View(name="drafter", speaker=theirs.speaker, tokenizer=PairTokenizer())
    comparison = compare_models(ours, theirs, [ord("a"), ord("b")], max_tokens=4, clock=clock)
    assert len(comparison.positions) == 2  # after two and four bytes


def test_no_common_boundary_is_an_error_with_a_remedy():
    (ours, theirs), clock = views({"a": 1.0}, {"a": 1.0})
    theirs = View(name="drafter", speaker=theirs.speaker, tokenizer=PairTokenizer())
    with pytest.raises(ModelError, match="no common place"):
        compare_models(ours, theirs, [ord("a")], max_tokens=1, clock=clock)
