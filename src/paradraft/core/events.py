"""What the engine tells while a request runs: an event per step and choice, counts with the last one."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.records import FinishReason, Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Logprob:
    """One token's log-probability under the raw target (fp32, before any sampling parameter) and its rank from 1."""

    token: int
    logprob: float
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLogprobs:
    """The chosen token and the most probable alternatives, best first."""

    chosen: Logprob
    top: tuple[Logprob, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationStats:
    """Counts of one choice.

    A row pass is one scored pass of this row. A round is a row pass of decoding (not prefill) that was not cut
    short by a stop or a limit: tau = round_tokens / rounds.
    """

    passes: int = 0
    rounds: int = 0
    round_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    dropped: int = 0  # accepted, but behind a stop or limit
    recomputed: int = 0  # accepted, and computed again after a preemption
    drafted_by_depth: tuple[int, ...] = ()  # row passes whose draft reached the depth, from 1
    accepted_by_depth: tuple[int, ...] = ()  # row passes whose accepted path reached it
    refused_by_depth: tuple[int, ...] = ()  # row passes whose walk ended there because no draft was the right one
    drafted_by_source: tuple[int, ...] = ()
    accepted_by_source: tuple[int, ...] = ()
    cached_prompt_tokens: int = 0
    preemptions: int = 0

    @property
    def tau(self) -> float:
        """Return the tokens committed per decoding pass; 1.0 means no speculation."""
        return self.round_tokens / self.rounds if self.rounds else 1.0

    @property
    def acceptance_rate(self) -> float:
        """Return accepted over verified draft nodes, 0.0 without drafts."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def path_acceptance_rate(self) -> float:
        """Return the share of the walk's steps into a draft that found the right node, 0.0 without drafts.

        It compares chains with trees: a node beside the accepted path is not held against the draft.
        """
        tried = self.accepted + sum(self.refused_by_depth)
        return self.accepted / tried if tried else 0.0

    @property
    def effective_acceptance_rate(self) -> float:
        """Return the share of verified draft nodes that saved a pass for good."""
        return (self.accepted - self.dropped - self.recomputed) / self.drafted if self.drafted else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceTimes:
    """Where the time of a choice went, in seconds; None for what it never came to."""

    queued: float  # until it was first given a row, or ended without one
    prefill: float | None = None  # from there to its first token
    decode: float | None = None  # from its first token to its end


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenEvent:
    """Progress of one choice of a request. Text never ends in half a character or in part of a stop text."""

    request_id: str
    index: int  # choice
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    pieces: tuple[str, ...]  # the text each token released, and behind it what an end from outside released
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None  # with the first event of choice 0
    num_hidden: int = 0  # tokens besides, whose text an output filter changed
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop text or stop id that ended it
    error: str | None = None
    stats: GenerationStats | None = None  # with the last event, and with all where the request tells counts
    times: ChoiceTimes | None = None  # with the last event

    @property
    def text(self) -> str:
        """Return the text that became known with this event."""
        return "".join(self.pieces)
