"""One choice of a request: everything about it that outlives a preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.events import TokenEvent, TokenLogprobs
from paradraft.core.ports import Clock, Tokenizer
from paradraft.core.records import FinishReason, Origin
from paradraft.core.requests import Request
from paradraft.engine.intake import sampling_of
from paradraft.engine.statistics import Tally
from paradraft.engine.text import TextStream
from paradraft.engine.watch import ChoiceWatch

_ORIGINS = tuple(Origin)  # by value


class Generation:
    """Tokens, text and counts of one choice. `tokens` is the whole known sequence, prompt first."""

    def __init__(self, request: Request, choice: int, *, tokenizer: Tokenizer, longest: int, clock: Clock) -> None:
        self.request = request
        self.choice = choice
        params = request.params
        self.prompt_len = len(request.prompt)
        self.limit = min(self.prompt_len + params.max_tokens, longest)
        self._buffer = np.empty(self.limit, dtype=np.int32)
        self._buffer[: self.prompt_len] = request.prompt
        self._known_len = self.prompt_len
        self.sampling = sampling_of(request, choice, tokenizer.eos_ids)
        self._stop_ids = frozenset(self.sampling.stop_ids)
        self._eos_ids = frozenset(tokenizer.eos_ids)
        self.arrival = 0  # order among all choices, set when it is queued
        self.tally = Tally()
        self.watch = ChoiceWatch(clock)
        self.drafted_at: list[int] = []  # positions of accepted draft tokens
        self._tells_prompt_logprobs = params.prompt_logprobs is not None and choice == 0
        self.prompt_logprobs: list[TokenLogprobs | None] = [None]
        self._text = TextStream(tokenizer, params.stop)
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None

    @property
    def tokens(self) -> IntArray:
        """Return a read-only view of the known tokens."""
        view = self._buffer[: self._known_len]
        view.flags.writeable = False
        return view

    @property
    def known_len(self) -> int:
        """Return the number of known tokens."""
        return self._known_len

    @property
    def remaining(self) -> int:
        """Return how many tokens may still be produced."""
        return self.limit - self._known_len

    @property
    def lacks_prompt_logprobs(self) -> bool:
        """Whether log-probabilities of prompt tokens are asked for and not all known yet. Choice 0 tells them."""
        return self._tells_prompt_logprobs and len(self.prompt_logprobs) < self.prompt_len

    def take(self, tokens: IntArray, origins: IntArray, logprobs: Sequence[TokenLogprobs]) -> TokenEvent:
        """Append the tokens up to a stop or limit and return the event that tells of them."""
        pieces: list[str] = []
        for token, origin in zip(tokens.tolist(), origins.tolist(), strict=True):
            if origin == Origin.DRAFTED:
                self.drafted_at.append(self._known_len)
            pieces.append(self._append(token))
            if self.finish_reason is not None:
                break
        kept = len(pieces)
        self.watch.note_tokens()
        return self._event(
            token_ids=tuple(tokens[:kept].tolist()),
            origins=tuple([_ORIGINS[origin] for origin in origins[:kept].tolist()]),
            pieces=tuple(pieces),
            logprobs=tuple(logprobs[:kept]),
        )

    def counted(self, event: TokenEvent) -> TokenEvent:
        """Return the event with the counts that go with it: those of the choice with the last one."""
        if self.finish_reason is not None:
            return replace(event, stats=self.tally.snapshot(), times=self.watch.read())
        return replace(event, stats=self.tally.snapshot()) if self.request.tells_counts else event

    def end(self, reason: FinishReason, error: str | None = None) -> TokenEvent:
        """End the choice from outside (abort, error) and return its last event."""
        self.finish_reason = reason
        event = self._event(token_ids=(), origins=(), pieces=(self._text.flush(),), logprobs=(), error=error)
        return self.counted(event)

    def _append(self, token: int) -> str:
        """Append one token and return the text it released; sets the finish reason where it ends the choice."""
        self._buffer[self._known_len] = token
        self._known_len += 1
        is_stop = token in self._stop_ids
        may_stop = self._known_len - self.prompt_len >= self.request.params.min_tokens
        piece = self._text.push(token, is_silent=is_stop, scans_stops=may_stop)
        if piece.stop is not None:
            self._finish(FinishReason.STOP, piece.stop)
        elif is_stop:
            self._finish(FinishReason.STOP, None if token in self._eos_ids else token)
        elif self.remaining == 0:
            self._finish(FinishReason.LENGTH, None)
        if self.finish_reason is not None and piece.stop is None:
            return piece.text + self._text.flush()
        return piece.text

    def _finish(self, reason: FinishReason, stop_reason: str | int | None) -> None:
        self.finish_reason = reason
        self.stop_reason = stop_reason

    def _event(
        self,
        *,
        token_ids: tuple[int, ...],
        origins: tuple[Origin, ...],
        pieces: tuple[str, ...],
        logprobs: tuple[TokenLogprobs, ...],
        error: str | None = None,
    ) -> TokenEvent:
        is_first = bool(token_ids) and self._known_len - len(token_ids) == self.prompt_len
        tells_prompt = self._tells_prompt_logprobs and is_first
        return TokenEvent(
            request_id=self.request.request_id,
            index=self.choice,
            token_ids=token_ids,
            origins=origins,
            pieces=pieces,
            logprobs=logprobs,
            prompt_logprobs=tuple(self.prompt_logprobs) if tells_prompt else None,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            error=error,
        )
