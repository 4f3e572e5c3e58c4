"""Speakers for the lab: scripted answers, counts and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.core.events import GenerationStats, Logprob, TokenLogprobs
from paradraft.core.records import FinishReason, Origin
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import Completion, GenerationResult
from paradraft.engine.statistics import Round, Tally

FAR_BELOW = -1000.0
Answer = Callable[[list[int], SamplingParams], Sequence[int]]


class ManualClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counting_up(prompt: list[int], params: SamplingParams) -> list[int]:
    """Answer with the last prompt token plus 1, 2, ..."""
    return [prompt[-1] + step for step in range(1, params.max_tokens + 1)]


class ScriptedSpeaker:
    """Answers by a function, takes the same time for each token, and reports fixed counts."""

    def __init__(
        self,
        clock: ManualClock,
        seconds_per_token: float,
        *,
        answer: Answer = counting_up,
        stats: GenerationStats | None = None,
        finish: FinishReason = FinishReason.LENGTH,
        margins: dict[int, float] | None = None,
    ) -> None:
        self.clock = clock
        self.seconds_per_token = seconds_per_token
        self.answer = answer
        self.stats = stats or GenerationStats()
        self.finish = finish
        self.logits = {token: -margin for token, margin in (margins or {}).items()}
        self.asked: list[tuple[list[list[int]], list[SamplingParams]]] = []

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        self.asked.append((prompts, params))
        answers = [tuple(self.answer(prompt, each)) for prompt, each in zip(prompts, params, strict=True)]
        self.clock.now += self.seconds_per_token * sum(map(len, answers))
        return [
            result_of(prompt, answer, stats=self.stats, finish=self.finish, logprobs=self._logprobs(each))
            for prompt, answer, each in zip(prompts, answers, params, strict=True)
        ]

    def logits_after(self, tokens: list[int]) -> FloatArray:
        """Return the logits behind any tokens: those that were given, all others far below."""
        row = np.full(512, FAR_BELOW, dtype=np.float32)
        row[list(self.logits)] = list(self.logits.values())
        return row

    def _logprobs(self, params: SamplingParams) -> tuple[TokenLogprobs, ...] | None:
        if params.logprobs is None:
            return None
        ranked = sorted(self.logits.items(), key=lambda pair: -pair[1])
        top = tuple(Logprob(token=t, logprob=value, rank=rank) for rank, (t, value) in enumerate(ranked, 1))
        return (TokenLogprobs(chosen=top[0], top=top),)


def result_of(
    prompt: Sequence[int],
    answer: Sequence[int],
    *,
    stats: GenerationStats | None = None,
    finish: FinishReason = FinishReason.LENGTH,
    logprobs: tuple[TokenLogprobs, ...] | None = None,
    pieces: tuple[str, ...] | None = None,
    origins: tuple[Origin, ...] | None = None,
) -> GenerationResult:
    """Return a result of one choice."""
    texts = pieces if pieces is not None else tuple(f"{token} " for token in answer)
    choice = Completion(
        index=0,
        text="".join(texts),
        token_ids=tuple(answer),
        origins=origins if origins is not None else (Origin.PLAIN,) * len(answer),
        pieces=texts,
        logprobs=logprobs,
        finish_reason=finish,
        stop_reason=None,
        error=None,
        seed=0,
        stats=stats or GenerationStats(),
    )
    return GenerationResult(
        request_id="request-1",
        prompt=None,
        prompt_token_ids=tuple(prompt),
        prompt_logprobs=None,
        choices=(choice,),
    )


def stats_of(accepts: Sequence[int], *, gamma: int, last_kept: int | None = None) -> GenerationStats:
    """Count one step for each entry: a chain of gamma nodes of which so many stood. last_kept cuts the last step."""
    tally = Tally()
    for number, accepted in enumerate(accepts):
        is_cut = last_kept is not None and number == len(accepts) - 1
        tally.add_round(
            Round(
                node_depths=tuple(range(1, gamma + 1)),
                node_sources=(1,) * gamma,
                path=tuple(range(accepted)),
                num_kept=last_kept if is_cut and last_kept is not None else accepted + 1,
                is_counted=not is_cut,
            )
        )
    return tally.snapshot()
