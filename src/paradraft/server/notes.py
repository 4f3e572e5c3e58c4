"""What is noted about a request while it passes, for the log: figures and names, never a word of its text."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.types import Scope

from paradraft.server.answers.gathered import Gathered

_PLACE = "paradraft.note"


@dataclass(slots=True)
class Note:
    """One HTTP request; figures are None where no answer was made."""

    request_id: str = field(default_factory=lambda: secrets.token_hex(12))
    begun: float = field(default_factory=time.monotonic)
    code: str | None = None  # of the error it was answered with
    first_seconds: float | None = None  # from its arrival to the first token
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reasons: tuple[str, ...] = ()
    tau: float | None = None
    was_left: bool = False  # the client was gone before the answer was whole

    def begin(self, request_id: str, prompt_tokens: int) -> None:
        """Note that the engine gets the request."""
        self.request_id, self.prompt_tokens = request_id, prompt_tokens

    def note_token(self) -> None:
        """Note that there is something to tell."""
        if self.first_seconds is None:
            self.first_seconds = time.monotonic() - self.begun

    def end(self, choices: Sequence[Gathered]) -> None:
        """Note what was answered so far."""
        stats = [choice.stats for choice in choices if choice.stats is not None]
        rounds = sum(each.rounds for each in stats)
        self.completion_tokens = sum(len(choice.token_ids) + choice.num_hidden for choice in choices)
        self.finish_reasons = tuple(str(choice.finish_reason) for choice in choices if choice.finish_reason)
        self.tau = sum(each.round_tokens for each in stats) / rounds if rounds else None


def note_of(scope: Scope) -> Note:
    """Return the note of a request, begun with the first call."""
    note: Note = scope.setdefault(_PLACE, Note())
    return note
