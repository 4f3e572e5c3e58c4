"""One HTTP request on its way through the engine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from anyio import to_thread

from paradraft.core.events import TokenEvent
from paradraft.core.requests import Request
from paradraft.core.serving import Observer, Service
from paradraft.server.admission import Admission
from paradraft.server.answers.format import AnswerFormat
from paradraft.server.answers.gathered import Gathered
from paradraft.server.answers.usage import Json, metrics_of, usage_of
from paradraft.server.filtering import Filtering
from paradraft.server.options import ServerOptions
from paradraft.server.schema.sampling import SamplingFields
from paradraft.server.switchboard import Switchboard


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What the routes work with."""

    service: Service
    observer: Observer
    options: ServerOptions
    switchboard: Switchboard
    admission: Admission
    filtering: Filtering
    max_characters: int  # of a prompt; a longer one has more tokens than a row holds, whatever it says


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What was asked, and how it is answered."""

    requests: tuple[Request, ...]
    format: AnswerFormat
    model: str
    gamma: int
    streams: bool
    tells_usage: bool  # in a stream; a whole answer always does
    tells_usage_always: bool  # with each chunk
    tells_speculation: bool
    tells_origins: bool
    counts_answers: bool = True  # whether tokens of answers were asked for at all
    token: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def num_choices(self) -> int:
        """Return the number of choices of all prompts."""
        return sum(request.params.n for request in self.requests)

    def number(self, at: int, choice: int) -> int:
        """Return the place among all choices of a choice of the request at this index."""
        return sum(request.params.n for request in self.requests[:at]) + choice

    def head(self, kind: str) -> Json:
        """Return what every answer and chunk begins with."""
        return {
            "id": f"{self.format.prefix}-{self.token}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def usage(self, choices: Sequence[Gathered]) -> Json:
        """Return the tokens taken so far."""
        first = choices[:: self.requests[0].params.n]
        return usage_of(
            sum(len(request.prompt) for request in self.requests),
            sum(len(choice.token_ids) + choice.num_hidden for choice in choices) if self.counts_answers else 0,
            sum(choice.stats.cached_prompt_tokens for choice in first if choice.stats is not None),
        )

    def told(self, choice: Json, said: TokenEvent | Gathered) -> Json:
        """Return a choice, with where its tokens come from if that was asked for."""
        if self.tells_origins and self.counts_answers:
            choice["pieces"] = list(said.pieces)
            choice["origins"] = [origin.name.lower() for origin in said.origins]
        return choice

    def metrics(self, choices: Sequence[Gathered]) -> Json:
        """Return what speculation did."""
        return metrics_of([choice.stats for choice in choices if choice.stats is not None], self.gamma)


def new_request_id() -> str:
    """Return an id that nobody can guess; clients never choose one."""
    return secrets.token_hex(12)


async def _check(requests: Sequence[Request], service: Service) -> None:
    """Check requests; a grammar may have to be compiled for them, which is done beside the event loop."""
    for request in requests:
        if request.params.grammar is None:
            service.check(request)
        else:
            await to_thread.run_sync(service.check, request)


async def exchange_of(
    body: SamplingFields, context: Context, requests: Sequence[Request], answers: AnswerFormat, *, counts: bool = True
) -> Exchange:
    """Return the exchange of a body whose requests were made; raise RequestRefused if one cannot be served."""
    await _check(requests, context.service)
    options = body.stream_options
    return Exchange(
        requests=tuple(requests),
        format=answers,
        model=body.model or context.service.model.name,
        gamma=context.service.model.gamma if body.speculative.gamma is None else body.speculative.gamma,
        streams=bool(body.stream),
        tells_usage=options is not None and (options.include_usage or options.continuous_usage_stats),
        tells_usage_always=options is not None and options.continuous_usage_stats,
        tells_speculation=body.speculative.stats,
        tells_origins=body.speculative.origins,
        counts_answers=counts,
    )
