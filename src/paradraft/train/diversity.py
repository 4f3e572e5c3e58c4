"""How varied texts are, in counts that can be compared between samples of one size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.train.overlap import words_of

_FIRST_WORDS = 3
_ALIKE = 0.5  # shared words of two texts, as a share of the words of both, from which they are near duplicates


@dataclass(frozen=True, kw_only=True, slots=True)
class Diversity:
    """What was counted; shares are of the texts."""

    num_texts: int
    num_words: int
    distinct_words: int
    distinct_openings: float  # first three words that no text before has
    near_duplicates: float  # texts that share half of all words with a text before
    entropy: float  # bits per word, of the words of all texts together


def measure_diversity(texts: Iterable[str], *, most_words: int | None = None) -> Diversity:
    """Count words without case and punctuation; distinct ones and their entropy among the first most_words alone."""
    said = [words_of(text) for text in texts]
    counts = Counter([word for words in said for word in words][:most_words])
    return Diversity(
        num_texts=len(said),
        num_words=sum(counts.values()),
        distinct_words=len(counts),
        distinct_openings=len({words[:_FIRST_WORDS] for words in said}) / max(len(said), 1),
        near_duplicates=_near_duplicates([set(words) for words in said]) / max(len(said), 1),
        entropy=_entropy(list(counts.values())),
    )


def _near_duplicates(said: Sequence[set[str]]) -> int:
    return sum(any(_alike(words, other) for other in said[:at]) for at, words in enumerate(said))


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _ALIKE * max(len(one | other), 1)


def _entropy(counts: list[int]) -> float:
    shares = np.array(counts, dtype=float) / max(sum(counts), 1)
    return float(-(shares * np.log2(shares)).sum()) if counts else 0.0
