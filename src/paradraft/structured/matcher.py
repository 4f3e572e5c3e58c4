"""One row's place in its grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llguidance import LLMatcher

from paradraft.core.arrays import BoolArray, IntArray, ints
from paradraft.core.errors import ProtocolError, RequestRefused
from paradraft.structured.compiler import first_line, mask_of


class RowMatcher:
    """Implements core.grammar.Matcher over the library's matcher, which it moves to wherever it is asked about.

    The library's matcher stands behind some output; the next question is most often about a few tokens more, and after
    a wrong draft about a few less. So it steps back to what both outputs share, and forward from there. One that has
    failed stays failed, so it is thrown away, and the next question begins anew.
    """

    def __init__(self, open_: Callable[[], LLMatcher], *, eos_ids: frozenset[int], vocab_size: int) -> None:
        """Open a matcher at the grammar's beginning whenever one is needed."""
        self._open = open_
        self._eos_ids = eos_ids
        self._matcher: LLMatcher | None = None
        self._place = ints([])  # the output behind which the library's matcher stands
        self._ended = np.zeros(vocab_size, dtype=np.bool_)
        self._ended[list(eos_ids)] = True

    def allowed(self, output: IntArray) -> BoolArray:
        """Return which tokens may follow; see Matcher."""
        if any((output == token).any() for token in self._eos_ids):
            return self._ended
        matcher = self._moved(output)
        mask = mask_of(matcher, len(self._ended))
        self._give_up_if_failed(matcher)
        return mask

    def count_allowed(self, output: IntArray, path: Sequence[int]) -> int:
        """Return how many tokens of the path could follow; all of them where the library cannot tell."""
        stop = next((at for at, token in enumerate(path) if token in self._eos_ids), len(path))
        try:
            matcher = self._moved(output)
            if matcher.is_stopped():  # it says that nothing follows, and means no text
                return int(stop == 0 < len(path))
            count = matcher.validate_tokens(list(path[: stop + 1]))
            self._give_up_if_failed(matcher)
        except (ProtocolError, RequestRefused):
            return len(path)
        return count

    def _moved(self, output: IntArray) -> LLMatcher:
        if self._matcher is None:
            self._matcher, self._place = self._open(), ints([])
        matcher = self._matcher
        shared = _num_shared(self._place, output)
        if shared < len(self._place):
            matcher.rollback(len(self._place) - shared)
        if shared < len(output):
            matcher.consume_tokens(output[shared:].tolist())
        self._give_up_if_failed(matcher)
        self._place = output.copy()
        return matcher

    def _give_up_if_failed(self, matcher: LLMatcher) -> None:
        if matcher.is_error():
            self._matcher = None
            raise ProtocolError(
                f"The grammar cannot be followed further: {first_line(matcher.get_error())}.",
                remedy="Simplify the grammar.",
            )


def _num_shared(one: IntArray, other: IntArray) -> int:
    """Return how many tokens two outputs begin with in common."""
    shorter = min(len(one), len(other))
    differing = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differing[0]) if len(differing) else shorter
