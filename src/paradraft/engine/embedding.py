"""Embeddings of texts: passes of their own between the steps, on pages of the same cache that are freed again.

An embedding is the mean, over all tokens of a text, of what the model's head reads there (the last layer's output
behind the final norm), divided by its length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray, IntArray, ints, join, starts_of
from paradraft.core.embedding import EmbeddingTarget
from paradraft.core.errors import CapacityError, ParadraftError, ProtocolError, RequestRefused
from paradraft.core.ports import Target
from paradraft.core.records import Batch
from paradraft.kv.lease import Lease
from paradraft.kv.pages import PageCache

TOKENS_BESIDE_ROWS = 64  # of a pass while rows run, so that none of them waits for long

Vectors = list[FloatArray]  # one for each text, [hidden size], of length 1


@dataclass(slots=True, eq=False)
class _Job:
    """Texts that were asked for together."""

    answer: Future[Vectors]
    vectors: list[FloatArray | None]

    def settle(self, index: int, vector: FloatArray) -> None:
        self.vectors[index] = vector
        found = [each for each in self.vectors if each is not None]
        if len(found) == len(self.vectors) and self.answer.set_running_or_notify_cancel():
            self.answer.set_result(found)

    def fail(self, error: Exception) -> None:
        if not self.answer.done() and self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


@dataclass(slots=True, eq=False)
class _Text:
    """One text: its tokens, its pages while it is computed, and the sum over the tokens that were fed."""

    job: _Job
    index: int
    tokens: IntArray
    lease: Lease | None = None
    num_fed: int = 0
    total: DoubleArray = field(default_factory=lambda: np.zeros(1))

    def close(self) -> None:
        if self.lease is not None:
            self.lease.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What a pass feeds of a text."""

    text: _Text
    lease: Lease
    count: int


class Embedder:
    """Computes embeddings bit by bit. Texts begin in the order of their arrival; several small ones share a pass."""

    def __init__(self, target: Target, pages: PageCache, *, longest: int, max_tokens: int) -> None:
        """Embed texts of up to `longest` tokens, in passes of up to `max_tokens`."""
        self._target = target if isinstance(target, EmbeddingTarget) else None
        self._vocab_size = target.limits.vocab_size
        self._pages = pages
        self._longest = longest
        self._max_tokens = max_tokens
        self._texts: deque[_Text] = deque()  # those with pages come first

    @property
    def size(self) -> int:
        """Return the numbers of an embedding, 0 if the target cannot give any."""
        return 0 if self._target is None else self._target.limits.hidden_size

    @property
    def has_work(self) -> bool:
        """Whether a text is not done."""
        return len(self._texts) > 0

    def check(self, texts: Sequence[Sequence[int]]) -> None:
        """Raise RequestRefused for texts that cannot be embedded. May be called from any thread."""
        if self._target is None:
            raise RequestRefused("What runs this model gives no embeddings.", remedy="Serve it with another runner.")
        for place, tokens in enumerate(texts):
            if not 1 <= len(tokens) <= self._longest:
                raise RequestRefused(
                    f"Text {place} has {len(tokens)} tokens.", remedy=f"Send texts of 1 to {self._longest} tokens."
                )
            if not 0 <= min(tokens) <= max(tokens) < self._vocab_size:
                raise RequestRefused(
                    f"Text {place} names a token id outside of 0 to {self._vocab_size - 1}.",
                    remedy="Use this model's own tokenizer.",
                )

    def add(self, texts: Sequence[Sequence[int]], answer: Future[Vectors]) -> None:
        """Queue checked texts; the answer is told when all are done. Whoever cancels it gets nothing more computed."""
        job = _Job(answer, [None] * len(texts))
        self._texts.extend(_Text(job, index, ints(list(tokens))) for index, tokens in enumerate(texts))

    def run(self, *, is_alone: bool) -> None:
        """Run one pass if there are pages for it; beside rows that generate it is a short one."""
        self._drop([text for text in self._texts if text.job.answer.done()])
        parts = self._parts(self._max_tokens if is_alone else min(self._max_tokens, TOKENS_BESIDE_ROWS))
        if self._target is None or not parts:
            return
        try:
            states = self._target.last_hidden(_batch(parts, self._pages.page_size))
        except (ParadraftError, RuntimeError, ValueError, ArithmeticError, MemoryError) as error:
            for part in parts:
                part.text.job.fail(error)
            return
        ends = starts_of([part.count for part in parts]).tolist()
        for part, low, high in zip(parts, ends, ends[1:], strict=False):
            self._take(part, states[low:high])

    def fail_all(self, error: Exception) -> None:
        """End every text with an error."""
        for text in self._texts:
            text.job.fail(error)
        self._drop(list(self._texts))

    def _parts(self, budget: int) -> list[_Part]:
        """Return what the next pass feeds, at most so many tokens."""
        parts: list[_Part] = []
        for text in self._texts:
            lease = text.lease or self._open(text)
            if budget <= 0 or lease is None:
                break
            count = min(len(text.tokens) - text.num_fed, budget)
            parts.append(_Part(text, lease, count))
            budget -= count
        return parts

    def _open(self, text: _Text) -> Lease | None:
        """Give a text its pages; None if there are not enough now. They are never committed, so nobody finds them."""
        try:
            text.lease = self._pages.open(text.tokens, reuse=False, room=len(text.tokens))
        except CapacityError:
            return None
        text.lease.stage(len(text.tokens))
        return text.lease

    def _take(self, part: _Part, states: FloatArray) -> None:
        text = part.text
        text.total = text.total + states.sum(axis=0, dtype=np.float64)
        text.num_fed += part.count
        if text.num_fed < len(text.tokens):
            return
        length = float(np.linalg.norm(text.total))
        if not (np.isfinite(length) and length > 0.0):
            text.job.fail(
                ProtocolError("The hidden states of a text are not finite, or all zero.", remedy="Check the weights.")
            )
        else:
            text.job.settle(text.index, (text.total / length).astype(np.float32))
        self._drop([text])

    def _drop(self, texts: Sequence[_Text]) -> None:
        for text in texts:
            text.close()
            self._texts.remove(text)


def _batch(parts: Sequence[_Part], page_size: int) -> Batch:
    """Return the batch of a pass: a row for each part. Nobody drafts for it, so it has neither history nor sampling."""
    tables = [part.lease.page_table for part in parts]
    return Batch(
        rows=ints(list(range(len(parts)))),
        starts=starts_of([part.count for part in parts]),
        tokens=join([part.text.tokens[part.text.num_fed :][: part.count] for part in parts]),
        context_len=ints([part.text.num_fed for part in parts]),
        num_scored=ints([0] * len(parts)),
        page_starts=starts_of([len(table) for table in tables]),
        pages=join(tables),
        page_size=page_size,
        history=(),
        sampling=(),
    )
