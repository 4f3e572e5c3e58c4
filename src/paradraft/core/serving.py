"""What a server and those who watch it see of an engine, whichever engine it is and wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from paradraft.core.arrays import FloatArray
from paradraft.core.events import GenerationStats, TokenEvent
from paradraft.core.faults import DrafterFaults
from paradraft.core.ports import Tokenizer
from paradraft.core.records import Hindrance
from paradraft.core.requests import Request
from paradraft.core.spread import Spread

Deliver = Callable[[Sequence[TokenEvent]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """What is served, as data."""

    name: str
    created: int  # seconds since 1970 at which it was loaded
    drafter: str  # names of its sources joined by +, none without one
    rule: str
    is_exact: bool  # whether answers are those of plain decoding
    dtype: str
    runner: str
    vocab_size: int
    longest: int  # tokens of a prompt and its answer together
    gamma: int  # most draft tokens per step on one path
    max_rows: int
    embedding_size: int = 0  # numbers of an embedding; 0: it gives none


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSnapshot:
    """What an engine holds at one moment, and did since it started; counts never fall."""

    running: int = 0  # choices
    waiting: int = 0
    pages_total: int = 0
    pages_held: int = 0  # by running rows
    pages_cached: int = 0  # published, held by no row: anybody may take them
    cache_reuse_ratio: float = 0.0  # of the last step: positions read from shared pages over all positions read
    positions_read: int = 0  # by rows, in all steps
    positions_shared: int = 0  # of these, in pages taken over by prefix
    prompt_positions: int = 0  # of admitted choices
    cached_positions: int = 0  # of these, found in the prefix cache
    steps: int = 0
    committed: int = 0  # tokens
    finished: int = 0  # choices
    failed: int = 0
    times: Mapping[str, Spread] = field(default_factory=dict)  # seconds: propose, score, accept, observe, step
    drafting: Spread | None = None  # seconds of proposing in steps in which a row might draft
    step_tokens: Spread | None = None  # prompt tokens fed and tokens committed by a step
    plain_pass_seconds: float | None = None  # of one row's pass without drafts, as measured; None: not known yet
    decode_seconds: float = 0.0  # of steps without prompts, since the price of a pass without drafts is known
    plain_seconds: float = 0.0  # what the tokens of those steps would have taken in passes without drafts
    counts: GenerationStats = field(default_factory=GenerationStats)  # all rows together
    sources: tuple[str, ...] = ()  # of counts.drafted_by_source
    num_unverified: int = 0  # nodes that were drafted and not worth their part of the pass
    num_pruned: int = 0  # nodes that were drafted and that a grammar forbids
    faults: DrafterFaults = field(default_factory=DrafterFaults)
    gammas: Mapping[int, int] = field(default_factory=dict)  # depth planned for a decoding row -> times
    hindrances: Mapping[Hindrance, int] = field(default_factory=dict)  # why a decoding row had no draft -> times

    @property
    def seconds(self) -> dict[str, float]:
        """Return the sum of the seconds by verb."""
        return {verb: spread.total for verb, spread in self.times.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether an engine does its work."""

    is_alive: bool  # its thread or process runs
    has_work: bool
    seconds_since_progress: float  # since the last step ended, or since it became idle: 0.0 while idle
    failure: str | None = None  # what ended it, if it is not alive


class Service(Protocol):
    """An engine that runs on its own; safe to call from any thread but `start` and `close`."""

    model: ServedModel
    tokenizer: Tokenizer

    def start(self, deliver: Deliver) -> None:
        """Begin to step. `deliver` gets all events of a step at once, on the engine's thread: it must not wait."""
        ...

    def check(self, request: Request) -> None:
        """Raise RequestRefused if the request can never be served."""
        ...

    def submit(self, request: Request) -> None:
        """Queue a checked request; every choice of it will have an event with a finish reason, whatever happens."""
        ...

    def cancel(self, request_id: str) -> None:
        """End a request soon and free its pages; its choices get their last events. Unknown ids are ignored."""
        ...

    def embed(self, texts: Sequence[Sequence[int]]) -> Future[list[FloatArray]]:
        """Queue token ids to be embedded; the answer has a vector of length 1 for each text, [embedding_size].

        Raises RequestRefused for texts that cannot be embedded. The answer fails if the engine ends or the pass does;
        whoever cancels it gets nothing more computed.
        """
        ...

    def health(self) -> Health:
        """Return whether the engine makes progress."""
        ...

    def snapshot(self, timeout: float = 1.0) -> EngineSnapshot:
        """Return the engine's state between two steps; after `timeout` seconds the last one that is known."""
        ...

    def close(self, timeout: float) -> None:
        """End all requests and stop; wait at most `timeout` seconds for the step under way."""
        ...


class Observer(Protocol):
    """Watches requests pass. Called in the order of events by one thread; it must not raise or wait."""

    def arrived(self, request: Request, now: float) -> None:
        """Note a request that was accepted."""
        ...

    def told(self, events: Sequence[TokenEvent], now: float) -> None:
        """Note what a step told; a choice's last event has a finish reason and its counts."""
        ...

    def refused(self, status: int, reason: str) -> None:
        """Note a request that was answered with an error before it was queued."""
        ...


class Figures(Observer, Protocol):
    """An observer whose figures can be read."""

    content_type: str

    def render(self, snapshot: EngineSnapshot, health: Health) -> bytes:
        """Return the figures as a page, with what the engine says of itself; any thread may ask."""
        ...
