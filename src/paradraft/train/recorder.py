"""A drafter that drafts nothing and keeps the taps of every token that the target is fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.train.shard_files import HalfArray, saturate


@dataclass(slots=True)
class _Recording:
    """Taps of one row from position 0 on, in parts."""

    parts: list[HalfArray] = field(default_factory=list)
    length: int = 0
    is_finite: bool = True

    def add(self, position: int, taps: FloatArray) -> None:
        """Append the taps at a position; a row that starts anew after a preemption starts anew here."""
        if position == 0:
            self.parts, self.length, self.is_finite = [], 0, True
        if position != self.length:
            return  # a hole: the prefix came from a cache, and the caller will find too few taps
        self.is_finite = self.is_finite and bool(np.isfinite(taps).all())
        self.parts.append(saturate(taps))
        self.length += len(taps)


class Recorder:
    """Implements the Drafter port. Rows are told apart by their requests' seeds, so give each request its own.

    A prefix taken from the cache is never fed, hence never tapped: switch prefix caching off.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = tuple(layers)
        self.needs = Needs(sources=("none",), hidden_layers=self.layers)
        self._is_on = False
        self._recordings: dict[int, _Recording] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record for the length of the block; what was not taken by its end is dropped."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
            self._recordings.clear()

    def take(self, seed: int, num_tokens: int) -> HalfArray | None:
        """Hand over the taps of a finished request, [num_tokens, layers * hidden size], None if some are not finite.

        The last token was never fed, so its row is zero. Raises ProtocolError if any other has no taps.
        """
        recording = self._recordings.pop(seed, _Recording())
        if recording.length != num_tokens - 1:
            raise ProtocolError(
                f"Taps of {recording.length} tokens were recorded, and {num_tokens - 1} were fed.",
                remedy="Switch prefix caching off, and give each request a seed of its own.",
            )
        if not recording.is_finite:
            return None
        taps = np.zeros((num_tokens, recording.parts[0].shape[1]), dtype=np.float16)
        np.concatenate(recording.parts, out=taps[:-1])
        return taps

    def propose(self, batch: Batch, plan: Plan) -> Proposal:  # noqa: ARG002 - the port's
        """Return no nodes."""
        return Proposal.empty(batch.num_rows)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Keep the taps of all pending tokens."""
        if not self._is_on:
            return
        taps = np.concatenate([scores.hidden(layer) for layer in self.layers], axis=1)
        for index, sampling in enumerate(batch.sampling):
            first = int(scores.fed_starts[index])
            fed = taps[first : first + batch.pending_len(index)]
            recording = self._recordings.setdefault(sampling.seed, _Recording())
            recording.add(int(batch.context_len[index]), fed)

    def forget(self, rows: IntArray) -> None:
        """Keep what was recorded: requests outlive their rows."""
