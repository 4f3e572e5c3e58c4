"""The demo answers twice, fairly."""

from __future__ import annotations

import pytest

from paradraft.core.sampling import SamplingParams
from paradraft.lab.demo import PROMPTS, answer_twice, totals_of
from support.speakers import ManualClock, ScriptedSpeaker, result_of, stats_of

PARAMS = SamplingParams(temperature=0.0, max_tokens=10)
ASKED = [(prompt, [number * 100]) for number, prompt in enumerate(PROMPTS)]


class TwoSpeeds(ScriptedSpeaker):
    """Takes 0.2 s a token plainly and 0.1 s speculatively."""

    def generate(self, prompts, params):
        self.seconds_per_token = 0.1 if params[0].speculate else 0.2
        return super().generate(prompts, params)


def test_ways_take_turns_so_that_neither_gains_by_its_place():
    speaker = TwoSpeeds(ManualClock(), 0.0)
    answer_twice(speaker, ASKED, PARAMS, clock=speaker.clock)
    order = [params[0].speculate for _, params in speaker.asked]
    assert order[:2] == [False, True]  # warm-up
    assert order[2:] == [False, True, True, False, True, False, False, True] * (len(PROMPTS) // 2)


def test_one_hiccup_of_the_machine_does_not_decide():
    class Hiccup(TwoSpeeds):
        def generate(self, prompts, params):
            if len(self.asked) == 4:
                self.clock.now += 100.0
            return super().generate(prompts, params)

    speaker = Hiccup(ManualClock(), 0.0)
    assert totals_of(answer_twice(speaker, ASKED, PARAMS, clock=speaker.clock)).speed_up == pytest.approx(2.0)


def test_speeds_are_all_tokens_by_all_seconds():
    speaker = TwoSpeeds(ManualClock(), 0.0, stats=stats_of([4, 0], gamma=4))
    totals = totals_of(answer_twice(speaker, ASKED, PARAMS, clock=speaker.clock))
    assert totals.plain_tokens_per_second == pytest.approx(5.0)
    assert totals.speculative_tokens_per_second == pytest.approx(10.0)
    assert totals.speed_up == pytest.approx(2.0)
    assert totals.tau == 3.0
    assert totals.is_identical


def test_one_different_token_is_enough_to_deny_identity():
    class Liar(TwoSpeeds):
        def generate(self, prompts, params):
            results = super().generate(prompts, params)
            return [result_of(prompts[0], [7])] if params[0].speculate and prompts[0] == [0] else results

    speaker = Liar(ManualClock(), 0.0)
    assert not totals_of(answer_twice(speaker, ASKED, PARAMS, clock=speaker.clock)).is_identical
