"""What every kind of answer can do, so that streaming and gathering are written once."""

from __future__ import annotations

from typing import Protocol

from paradraft.core.events import TokenEvent
from paradraft.server.answers.gathered import Gathered
from paradraft.server.answers.usage import Json


class AnswerFormat(Protocol):
    """Writes choices; number counts the choices of all prompts of a request, prompt by prompt."""

    @property
    def name(self) -> str:
        """Return the `object` of a whole answer."""
        ...

    @property
    def chunk_name(self) -> str:
        """Return the `object` of a piece of a stream."""
        ...

    @property
    def prefix(self) -> str:
        """Return what ids of answers begin with."""
        ...

    def choice(self, number: int, gathered: Gathered) -> Json:
        """Return a finished choice."""
        ...

    def opening(self, number: int) -> Json | None:
        """Return the choice of the chunk that a stream begins with, if there is one."""
        ...

    def delta(self, number: int, event: TokenEvent) -> Json:
        """Return the choice of a chunk of a stream."""
        ...
