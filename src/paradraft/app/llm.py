"""The library's face: load a model once, then generate, stream, chat or embed."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import numpy as np

from paradraft.app.compose import assemble
from paradraft.app.config import Config, configure
from paradraft.app.gather import Gathering
from paradraft.app.prompts import Prompt, as_ids, as_params, as_prompts
from paradraft.core.arrays import FloatArray
from paradraft.core.errors import RequestRefused
from paradraft.core.events import TokenEvent
from paradraft.core.ports import Drafter, Limits, Tokenizer
from paradraft.core.requests import Request
from paradraft.core.sampling import SamplingParams
from paradraft.engine.engine import Engine
from paradraft.engine.results import GenerationResult
from paradraft.models.load import LoadedModel, ModelIdentity

EventHook = Callable[[TokenEvent], None]


class LLM:
    """A target with its drafter, ready to generate. Use it as a context manager, or call close.

    Not thread-safe. Several streams may be open at once; they advance together.
    """

    def __init__(
        self, model: str | None = None, *, config: Config | None = None, custom: Drafter | None = None, **options: Any
    ) -> None:
        """Load the model. `options` are the fields of Config; they override `config`.

        custom: a drafter of your own (core.ports.Drafter) in place of the configured one.

        Raises ConfigError for an unknown option or a value out of range, ModelError for weights that cannot be
        used, AlignmentError for a drafter that does not fit.
        """
        named = {} if model is None else {"model": model}
        self.config = configure({**named, **options}, config)
        self._assembly = assemble(self.config, custom)
        self._mail: dict[str, list[TokenEvent]] = defaultdict(list)
        self._count = 0
        self._is_closed = False

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

    @property
    def model(self) -> LoadedModel:
        """Return the loaded target."""
        return self._assembly.model

    @property
    def is_exact(self) -> bool:
        """Whether answers are those of plain decoding."""
        return self._assembly.is_exact

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
        several = as_prompts(prompts)
        requests = [
            self._request(prompt, each) for prompt, each in zip(several, as_params(params, len(several)), strict=True)
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
            for event in self._events(list(by_id)):
                by_id[event.request_id].add(event)
                if on_event is not None:
                    on_event(event)
        finally:
            self._withdraw(list(by_id))
        return [gathering.result() for gathering in gatherings]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[TokenEvent]:
        """Yield events as tokens become known; closing the iterator early ends the request.

        Raises RequestRefused at once; the request itself begins with the first event that is asked for.
        """
        request = self._request(prompt, params or SamplingParams())
        self.engine.check(request)
        return self._stream(request)

    def chat(self, messages: list[dict[str, str]], params: SamplingParams | None = None) -> GenerationResult:
        """Generate the answer to a conversation of {"role", "content"} messages, in the model's chat format."""
        return self.generate([self.encode_chat(messages)], params)[0]

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the token ids of a conversation, ready for the model's answer."""
        return self.tokenizer.encode(self.tokenizer.render_chat(messages), add_special=False)

    def embed(self, texts: Prompt | Sequence[Prompt]) -> FloatArray:
        """Return a vector of length 1 for each text, [texts, hidden size] in fp32, as the server's embeddings are.

        A text is a str or a sequence of token ids; short ones share passes. Streams that are open go on meanwhile.
        Raises RequestRefused before anything runs if a text cannot be embedded, or if this runner gives no embeddings.
        """
        tokens = [self._encoded(text) for text in as_prompts(texts)]
        embedder = self.engine.embedder
        embedder.check(tokens)
        if not tokens:
            return np.zeros((0, embedder.size), dtype=np.float32)
        answer: Future[list[FloatArray]] = Future()
        embedder.add(tokens, answer)
        try:
            while not answer.done():
                self._step()
        finally:
            answer.cancel()  # what was interrupted is not computed on
        return np.stack(answer.result())

    def close(self) -> None:
        """Free the weights and the cache. Nothing can be generated afterwards; closing again does nothing."""
        self._is_closed = True
        self._assembly.resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, prompt: Prompt, params: SamplingParams) -> Request:
        ids = self._encoded(prompt)
        self._count += 1
        seed = params.seed if params.seed is not None else self.config.seed
        return Request(
            request_id=f"request-{self._count}",
            prompt=tuple(ids),
            params=params,
            seed=secrets.randbits(64) if seed is None else seed,
        )

    def _encoded(self, prompt: Prompt) -> list[int]:
        if self._is_closed:
            raise RequestRefused("This LLM is closed.", remedy="Create another one, and close it last.")
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else as_ids(prompt)

    def _stream(self, request: Request) -> Iterator[TokenEvent]:
        try:
            self.engine.add(request)
            yield from self._events([request.request_id])
        finally:
            self._withdraw([request.request_id])

    def _events(self, waited_for: list[str]) -> Iterator[TokenEvent]:
        """Step until every choice of these requests has ended; events of others are kept for their readers."""
        unfinished = waited_for
        while unfinished:
            for request_id in unfinished:
                yield from self._mail.pop(request_id, [])
            # Whoever holds the iterator may step or abort too, so the engine is asked, and the mail once more.
            unfinished = [
                request_id
                for request_id in unfinished
                if self.engine.num_choices(request_id) or request_id in self._mail
            ]
            if unfinished:
                self._step()

    def _step(self) -> None:
        for event in self.engine.step():
            self._mail[event.request_id].append(event)

    def _withdraw(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self.engine.abort(request_id)
            self._mail.pop(request_id, None)
