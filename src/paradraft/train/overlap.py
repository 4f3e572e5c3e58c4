"""Keeps training prompts clear of what will be measured: no 13 words in a row of a held-out text.

Thirteen words is the length at which GPT-3's authors called an overlap contamination (Brown et al.,
arXiv 2005.14165, appendix C). Words are compared without case and punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

NUM_WORDS = 13
MIN_WORDS = 5  # a held-out text shorter than this taints only what is equal to it
_WORD = re.compile(r"\w+")


class Overlap:
    """Knows the runs of words of held-out texts. A text shorter than 13 words counts as one run."""

    def __init__(self, held_out: Iterable[str]) -> None:
        self._runs: dict[int, set[tuple[str, ...]]] = {}
        self._texts: set[tuple[str, ...]] = set()
        for text in held_out:
            words = words_of(text)
            self._texts.add(words)
            length = min(len(words), NUM_WORDS)
            if length >= MIN_WORDS:
                self._runs.setdefault(length, set()).update(_runs(words, length))

    def taints(self, text: str) -> bool:
        """Whether a text shares a run of words with a held-out one, or is one."""
        words = words_of(text)
        if words in self._texts:
            return True
        return any(run in known for length, known in self._runs.items() for run in _runs(words, length))


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, lower case and without punctuation."""
    return tuple(_WORD.findall(text.lower()))


def _runs(words: tuple[str, ...], length: int) -> Iterator[tuple[str, ...]]:
    return (words[at : at + length] for at in range(len(words) - length + 1))
