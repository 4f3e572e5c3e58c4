"""What training asks of an engine: it answers token ids with token ids, and says what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paradraft.core.ports import Limits, Tokenizer
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult

Progress = Callable[[int, int], None]  # called with (done, total)


class Speaker(Protocol):
    """An engine as training sees it."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the target's tokenizer."""
        ...

    @property
    def limits(self) -> Limits:
        """Return what the target is and can take."""
        ...

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        """Answer all prompts together, one result each, in their order."""
        ...


def unwatched(done: int, total: int) -> None:
    """Ignore progress."""
