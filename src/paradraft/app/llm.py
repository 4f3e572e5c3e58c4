"""The library's face: load a model once, then generate, stream or chat."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from paradraft.app.compose import assemble
from paradraft.app.config import Config, configure
from paradraft.app.gather import Gathering
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Limits, Tokenizer
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine
from paradraft.engine.request import Request
from paradraft.engine.results import GenerationResult, TokenEvent
from paradraft.models.load import ModelIdentity

Prompt = str | Sequence[int]
EventHook = Callable[[TokenEvent], None]


class LLM:
    """A target with its drafter, ready to generate. Use it as a context manager, or call close.

    Not thread-safe. Several streams may be open at once; they advance together.
    """

    def __init__(self, model: str | None = None, *, config: Config | None = None, **options: Any) -> None:
        """Load the model. `options` are the fields of Config; they override `config`.

        Raises ConfigError for an unknown option or a value out of range, ModelError for weights that cannot be
        used, AlignmentError for a drafter that does not fit.
        """
        named = {} if model is None else {"model": model}
        self.config = configure({**named, **options}, config)
        self._assembly = assemble(self.config)
        self._mail: dict[str, list[TokenEvent]] = defaultdict(list)
        self._count = 0

    @property
    def engine(self) -> Engine:
        """Return the engine below."""
        return self._assembly.engine

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the target's tokenizer."""
        return self._assembly.model.tokenizer

    @property
    def limits(self) -> Limits:
        """Return what the target is and can take."""
        return self._assembly.engine.limits

    @property
    def identity(self) -> ModelIdentity:
        """Return which weights these are, with their hash."""
        return self._assembly.model.identity

    def summary(self) -> str:
        """Return a line that says what runs, on which path, and whether the output is exact."""
        return self._assembly.summary

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        on_event: EventHook | None = None,
    ) -> list[GenerationResult]:
        """Generate for one prompt or several together, and return their results in order.

        A prompt is a text or a sequence of token ids. params holds for all prompts, or there is one for each.
        Raises RequestRefused before anything runs if any of them cannot be served.
        """
        several = _as_prompts(prompts)
        requests = [
            self._request(prompt, each) for prompt, each in zip(several, _as_params(params, len(several)), strict=True)
        ]
        for request in requests:
            self.engine.check(request)
        gatherings = [
            Gathering(request, prompt if isinstance(prompt, str) else None)
            for request, prompt in zip(requests, several, strict=True)
        ]
        by_id = {request.request_id: gathering for request, gathering in zip(requests, gatherings, strict=True)}
        try:
            for request in requests:
                self.engine.add(request)
            for event in self._events(set(by_id)):
                by_id[event.request_id].add(event)
                if on_event is not None:
                    on_event(event)
        finally:
            self._withdraw(list(by_id))
        return [gathering.result() for gathering in gatherings]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[TokenEvent]:
        """Yield events as tokens become known; closing the iterator early ends the request.

        Raises RequestRefused at once, not at the first event.
        """
        request = self._request(prompt, params or SamplingParams())
        self.engine.add(request)
        return self._stream(request.request_id)

    def chat(self, messages: list[dict[str, str]], params: SamplingParams | None = None) -> GenerationResult:
        """Generate the answer to a conversation of {"role", "content"} messages, in the model's chat format."""
        return self.generate([self.encode_chat(messages)], params)[0]

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the token ids of a conversation, ready for the model's answer."""
        return self.tokenizer.encode(self.tokenizer.render_chat(messages), add_special=False)

    def close(self) -> None:
        """Free the weights and the cache."""
        self._assembly.resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, prompt: Prompt, params: SamplingParams) -> Request:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        self._count += 1
        seed = params.seed if params.seed is not None else self.config.seed
        return Request(
            request_id=f"request-{self._count}",
            prompt=tuple(int(token) for token in ids),
            params=params,
            seed=secrets.randbits(64) if seed is None else seed,
        )

    def _stream(self, request_id: str) -> Iterator[TokenEvent]:
        try:
            yield from self._events({request_id})
        finally:
            self._withdraw([request_id])

    def _events(self, waited_for: set[str]) -> Iterator[TokenEvent]:
        """Step until every choice of these requests has ended; events of others are kept for their readers."""
        open_choices = {request_id: self.engine.num_choices(request_id) for request_id in waited_for}
        while True:
            for request_id in list(open_choices):
                for event in self._mail.pop(request_id, []):
                    open_choices[request_id] -= event.finish_reason is not None
                    yield event
                if open_choices[request_id] == 0:
                    del open_choices[request_id]
            if not open_choices:
                return
            for event in self.engine.step():
                self._mail[event.request_id].append(event)

    def _withdraw(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self.engine.abort(request_id)
            self._mail.pop(request_id, None)


def _as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _as_params(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if len(params) != count:
        raise ConfigError(
            f"There are {len(params)} sampling parameters for {count} prompts.",
            remedy="Give one for all prompts, or one for each.",
        )
    return list(params)
