"""What the lab measures: anything that answers token ids with token ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paradraft.core.arrays import FloatArray
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult

Progress = Callable[[int, int], None]  # called with (done, total)


class Speaker(Protocol):
    """An engine as the lab sees it: the product's own, or a peer that it is measured against."""

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        """Answer all prompts together, one result each, in their order."""
        ...


class Plain(Speaker, Protocol):
    """Plain decoding, which answers are compared with; it also shows what a choice is made from."""

    def logits_after(self, tokens: list[int]) -> FloatArray:
        """Return the raw fp32 logits of the token behind these, [V]."""
        ...


def unwatched(done: int, total: int) -> None:
    """Ignore progress."""
