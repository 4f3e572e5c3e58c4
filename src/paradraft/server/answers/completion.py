"""Answers of /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence

from paradraft.core.events import Logprob, TokenEvent, TokenLogprobs
from paradraft.core.ports import Tokenizer
from paradraft.core.records import FinishReason
from paradraft.core.requests import Request
from paradraft.server.answers.gathered import Gathered
from paradraft.server.answers.spelling import spelled
from paradraft.server.answers.usage import Json

LOWEST = -9999.0  # JSON has no minus infinity


class CompletionFormat:
    """Writes text completions; `echoes` repeats the prompt, is_scored: only the prompt was asked for."""

    name, chunk_name, prefix = "text_completion", "text_completion", "cmpl"

    def __init__(
        self, tokenizer: Tokenizer, requests: Sequence[Request], prompts: Sequence[str], *, echoes: bool, answers: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._requests = requests
        self._prompts = prompts
        self._echoes = echoes
        self._answers = answers
        self._offsets: dict[int, int] = {}  # characters told of each streamed choice

    def choice(self, number: int, gathered: Gathered) -> Json:
        """Return a finished choice; number counts the choices of all prompts."""
        at = number // self._requests[0].params.n
        text = (self._prompts[at] if self._echoes else "") + (gathered.text if self._answers else "")
        return {
            "index": number,
            "text": text,
            "logprobs": self._logprobs(self._told(at, gathered), 0) if self._wants_logprobs else None,
            "finish_reason": str(gathered.finish_reason) if self._answers else str(FinishReason.LENGTH),
            "stop_reason": gathered.stop_reason if self._answers else None,
        }

    def opening(self, number: int) -> Json | None:
        """Return None: such a stream begins with its text."""
        del number
        return None

    def delta(self, number: int, event: TokenEvent) -> Json:
        """Return a piece of a streamed choice."""
        at = number // self._requests[0].params.n
        is_first = number not in self._offsets
        offset = self._offsets.setdefault(number, 0)
        text = event.text if self._answers else ""
        told: list[tuple[int, TokenLogprobs | None]] = []
        if self._echoes and is_first:
            text = self._prompts[at] + text
            told += self._prompt_told(at, event.prompt_logprobs)
        if self._answers:
            told += zip(event.token_ids, event.logprobs, strict=False)
        self._offsets[number] += len(text)
        return {
            "index": number,
            "text": text,
            "logprobs": self._logprobs(told, offset) if self._wants_logprobs else None,
            "finish_reason": event.finish_reason and str(event.finish_reason),
            "stop_reason": event.stop_reason,
        }

    @property
    def _wants_logprobs(self) -> bool:
        params = self._requests[0].params
        return params.logprobs is not None

    def _told(self, at: int, gathered: Gathered) -> list[tuple[int, TokenLogprobs | None]]:
        told = self._prompt_told(at, gathered.prompt_logprobs) if self._echoes else []
        return told + (list(zip(gathered.token_ids, gathered.logprobs, strict=True)) if self._answers else [])

    def _prompt_told(
        self, at: int, logprobs: tuple[TokenLogprobs | None, ...] | None
    ) -> list[tuple[int, TokenLogprobs | None]]:
        prompt = self._requests[at].prompt
        return list(zip(prompt, logprobs or (None,) * len(prompt), strict=True))

    def _logprobs(self, told: Sequence[tuple[int, TokenLogprobs | None]], offset: int) -> Json:
        tokens, values, tops, offsets = [], [], [], []
        for token, logprobs in told:
            text, _ = spelled(self._tokenizer, token)
            tokens.append(text)
            values.append(None if logprobs is None else max(LOWEST, logprobs.chosen.logprob))
            tops.append(None if logprobs is None else self._top(logprobs))
            offsets.append(offset)
            offset += len(text)
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def _top(self, logprobs: TokenLogprobs) -> dict[str, float]:
        """Return the likeliest tokens, with the chosen one if it is not among them."""
        shown: dict[str, float] = {}
        for each in (*logprobs.top, logprobs.chosen):
            self._show(shown, each)
        return shown

    def _show(self, shown: dict[str, float], each: Logprob) -> None:
        shown.setdefault(spelled(self._tokenizer, each.token)[0], max(LOWEST, each.logprob))
