"""An LLM for commands: answers at once, drafts every second token."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from paradraft.app.config import Config
from paradraft.core.arrays import FloatArray, ints
from paradraft.core.events import Logprob, TokenEvent, TokenLogprobs
from paradraft.core.ports import Drafter, Limits
from paradraft.core.records import Origin
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult
from support.byte_tokenizer import ByteTokenizer
from support.speakers import ManualClock, ScriptedSpeaker, result_of, stats_of

ANSWER = "Hello world"


class FakeLLM:
    """Says "Hello world" over and over, whatever is asked."""

    def __init__(self, config: Config, custom: Drafter | None = None) -> None:
        self.config = config
        self.custom = custom
        self.tokenizer = ByteTokenizer()
        self.asked: list[tuple[list[list[int]], list[SamplingParams]]] = []
        self.is_closed = False
        self.engine = SimpleNamespace(totals=SimpleNamespace(seconds={"propose": 0.1, "score": 1.0}))
        self.identity = SimpleNamespace(name="fake", sha256="f" * 64, revision=None)
        self.limits = Limits(
            name="fake",
            runner="fake",
            dtype="fp32",
            vocab_size=259,
            num_layers=1,
            hidden_size=1,
            max_positions=4096,
            num_pages=64,
            page_size=16,
            bytes_per_token=1,
            weight_bytes=1,
        )

    def __enter__(self) -> FakeLLM:
        return self

    def __exit__(self, *error: object) -> None:
        self.is_closed = True

    def summary(self) -> str:
        return f"fake on nothing, drafter {self.config.drafter}"

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        return self.tokenizer.encode(self.tokenizer.render_chat(messages))

    def answer(self, params: SamplingParams) -> bytes:
        text = ANSWER.encode()
        return (text * (params.max_tokens // len(text) + 1))[: params.max_tokens]

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        self.asked.append((prompts, params))
        if self.custom is not None:
            self._show_logits(self.custom)
        return [self._result(prompt, each) for prompt, each in zip(prompts, params, strict=True)]

    def _show_logits(self, custom: Drafter) -> None:
        """Let a drafter observe a step in which the first letter of the answer was chosen, by far."""
        logits = np.full(self.limits.vocab_size, -100.0, dtype=np.float32)
        logits[ANSWER.encode()[0]] = 0.0
        batch = SimpleNamespace(num_rows=1, num_scored=ints([1]), is_complete=lambda index: True)

        def row(index: int) -> FloatArray:
            assert index == 0
            return logits

        scores = SimpleNamespace(starts=ints([0, 1]), row=row)
        custom.observe(batch, None, scores, None)  # type: ignore[arg-type]

    def _result(self, prompt: list[int], params: SamplingParams) -> GenerationResult:
        answer = self.answer(params)
        drafts = params.speculate
        origins = tuple(Origin.DRAFTED if drafts and n % 2 == 0 else Origin.PLAIN for n in range(len(answer)))
        entry = Logprob(token=answer[0], logprob=-0.1, rank=1)
        logprobs = TokenLogprobs(chosen=entry, top=(entry,))
        result = result_of(
            prompt,
            list(answer),
            stats=stats_of([1] * (len(answer) // 2), gamma=2) if drafts else None,
            pieces=tuple(chr(byte) for byte in answer),
            origins=origins,
            logprobs=None if params.logprobs is None else (logprobs,) * len(answer),
        )
        if params.prompt_logprobs is None:
            return result
        scored = (None, *(logprobs for _ in prompt[1:]))
        return GenerationResult(
            request_id="r", prompt=None, prompt_token_ids=tuple(prompt), prompt_logprobs=scored, choices=result.choices
        )

    def stream(self, prompt: list[int], params: SamplingParams) -> Iterator[TokenEvent]:
        [result] = self.generate([prompt], [params])
        [choice] = result.choices
        half = len(choice.token_ids) // 2
        for part in (slice(0, half), slice(half, None)):
            is_last = part.stop is None
            yield TokenEvent(
                request_id="r",
                index=0,
                token_ids=choice.token_ids[part],
                origins=choice.origins[part],
                pieces=choice.pieces[part],
                finish_reason=choice.finish_reason if is_last else None,
                error=choice.error if is_last else None,
                stats=choice.stats if is_last else None,
            )


def fake_peer() -> ScriptedSpeaker:
    """Return a peer that says the same."""
    text = ANSWER.encode()
    return ScriptedSpeaker(ManualClock(), 0.1, answer=lambda _, params: (text * params.max_tokens)[: params.max_tokens])
