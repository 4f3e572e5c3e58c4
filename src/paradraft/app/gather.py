"""Gathers the events of one request into its result."""

from __future__ import annotations

from paradraft.core.events import GenerationStats, TokenEvent, TokenLogprobs
from paradraft.core.records import FinishReason, Origin
from paradraft.core.requests import Request
from paradraft.engine.results import Completion, GenerationResult

# Whoever aborts a request is handed its last event, so its reader may not get one.
_ABORTED = TokenEvent(request_id="", index=0, token_ids=(), origins=(), pieces=(), finish_reason=FinishReason.ABORT)


class Gathering:
    """A request's result in the making."""

    def __init__(self, request: Request, prompt: str | None) -> None:
        self._request = request
        self._prompt = prompt
        self._events: dict[int, list[TokenEvent]] = {choice: [] for choice in range(request.params.n)}

    def add(self, event: TokenEvent) -> None:
        """Take the next event of the request."""
        self._events[event.index].append(event)

    def result(self) -> GenerationResult:
        """Return the result; every choice has had its last event."""
        prompt_logprobs = next((event.prompt_logprobs for event in self._events[0] if event.prompt_logprobs), None)
        return GenerationResult(
            request_id=self._request.request_id,
            prompt=self._prompt,
            prompt_token_ids=self._request.prompt,
            prompt_logprobs=prompt_logprobs,
            choices=tuple(self._completion(index, events) for index, events in self._events.items()),
        )

    def _completion(self, index: int, events: list[TokenEvent]) -> Completion:
        last = events[-1] if events and events[-1].finish_reason else _ABORTED
        origins: list[Origin] = [origin for event in events for origin in event.origins]
        logprobs: list[TokenLogprobs] = [logprob for event in events for logprob in event.logprobs]
        pieces = tuple(piece for event in events for piece in event.pieces)
        return Completion(
            index=index,
            text="".join(pieces),
            token_ids=tuple(token for event in events for token in event.token_ids),
            origins=tuple(origins),
            pieces=pieces,
            logprobs=tuple(logprobs) if self._request.params.logprobs is not None else None,
            finish_reason=last.finish_reason or FinishReason.ABORT,
            stop_reason=last.stop_reason,
            error=last.error,
            seed=self._request.seed,
            stats=last.stats or GenerationStats(),
        )
