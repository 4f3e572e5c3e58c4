"""The listener hears the logits of a choice, whole and as the target gave them."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.errors import ProtocolError
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine
from paradraft.engine.results import GenerationResult
from paradraft.lab.listening import Listener, PlainSpeaker
from support.engines import LAW, answer, build_engine

PROMPT = list(range(1, 40)) * 5  # longer than a step takes at once


class EngineSpeaker:
    """Lets an engine answer, and drops what it says."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        for prompt, each in zip(prompts, params, strict=True):
            answer(self.engine, prompt, each)
        return []


@pytest.mark.parametrize("num_tokens", [1, 5, 64, 65, len(PROMPT)])
def test_the_logits_behind_tokens_are_the_targets(num_tokens: int) -> None:
    listener, prompt = Listener(), PROMPT[:num_tokens]
    heard = PlainSpeaker(EngineSpeaker(build_engine(listener)), listener).logits_after(prompt)
    assert np.array_equal(heard, LAW(tuple(prompt)))


def test_what_was_heard_stays_when_the_target_goes_on() -> None:
    listener = Listener()
    speaker = PlainSpeaker(EngineSpeaker(build_engine(listener)), listener)
    first = speaker.logits_after([3, 4])
    speaker.generate([[9, 9]], [SamplingParams(temperature=0.0, max_tokens=9)])
    assert np.array_equal(first, LAW((3, 4)))
    assert np.array_equal(speaker.logits_after([3, 4]), first)


def test_a_speaker_with_another_drafter_is_an_error() -> None:
    speaker = PlainSpeaker(EngineSpeaker(build_engine()), Listener())
    with pytest.raises(ProtocolError, match="Nothing was heard of the token behind 2 others"):
        speaker.logits_after([3, 4])
