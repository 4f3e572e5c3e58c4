"""What one choice has said so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.events import GenerationStats, TokenEvent, TokenLogprobs
from paradraft.core.records import FinishReason, Origin


@dataclass(slots=True)
class Gathered:
    """One choice in the making."""

    pieces: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_hidden: int = 0  # tokens besides, whose text an output filter changed
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None
    stats: GenerationStats | None = None

    def add(self, event: TokenEvent) -> None:
        """Take the choice's next event."""
        self._add_text(event)
        self.token_ids.extend(event.token_ids)
        self.origins.extend(event.origins)
        self.logprobs.extend(event.logprobs)
        self.num_hidden += event.num_hidden
        if event.prompt_logprobs is not None:
            self.prompt_logprobs = event.prompt_logprobs
        if event.finish_reason is not None:
            self.finish_reason, self.stop_reason = event.finish_reason, event.stop_reason
            self.error, self.stats = event.error, event.stats

    def _add_text(self, event: TokenEvent) -> None:
        """Add the event's text; what belongs to no token goes with the token before it, so that places stay aligned."""
        count = len(event.token_ids)
        stray = "".join(event.pieces[count:])
        self.pieces.extend(event.pieces[:count])
        if stray and self.pieces:
            self.pieces[-1] += stray
        elif stray:
            self.pieces.append(stray)

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.pieces)
