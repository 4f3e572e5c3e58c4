"""What callers get back when a request has ended."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.events import GenerationStats, TokenLogprobs
from paradraft.core.records import FinishReason, Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """One finished choice."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    pieces: tuple[str, ...]  # the text each token added, for colouring (one more after an abort or error)
    logprobs: tuple[TokenLogprobs, ...] | None
    finish_reason: FinishReason
    stop_reason: str | int | None
    error: str | None
    seed: int
    stats: GenerationStats


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationResult:
    """A finished request with its n choices."""

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None  # first entry None: nothing comes before it
    choices: tuple[Completion, ...]

    @property
    def text(self) -> str:
        """Return the text of the first choice."""
        return self.choices[0].text
