"""What a target offers beside scores, for those who want vectors of texts."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from paradraft.core.arrays import FloatArray
from paradraft.core.ports import Target
from paradraft.core.records import Batch


@runtime_checkable
class EmbeddingTarget(Target, Protocol):
    """A target that tells what its head reads."""

    def last_hidden(self, batch: Batch) -> FloatArray:
        """Run a pass over the pending tokens and return what the head reads at each, [P, hidden size].

        That is the last layer's output behind the final norm.

        It writes the cache like any pass; it reads neither history nor sampling, and scores nothing.
        """
        ...
