"""Ranked next tokens of two models, matched by place in the text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paradraft.core.events import TokenLogprobs
from paradraft.core.ports import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Guess:
    """A token that a model holds possible, as text, with its probability."""

    text: str
    probability: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """What one model holds possible at one place of the text."""

    said: str  # the token that stands there
    is_answer: bool
    probabilities: Mapping[bytes, float]  # best first


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Both models at one place. p is the target's probability and q the drafter's, of the drafter's first choice."""

    index: int
    said: str
    is_answer: bool
    target: tuple[Guess, ...]
    drafter: tuple[Guess, ...]
    jaccard: float  # of the shown guesses
    agrees: bool
    overlap: float
    p: float
    q: float

    @property
    def ratio(self) -> float:
        """Return p / q."""
        return self.p / self.q


def rank(
    tokenizer: Tokenizer, ids: Sequence[int], scored: Sequence[TokenLogprobs | None], *, answer_from: int
) -> dict[int, Ranks]:
    """Return the ranks at each place, keyed by the number of bytes before it."""
    ranks = {}
    offset = 0
    for index, (token, entry) in enumerate(zip(ids, scored, strict=True)):
        if entry is not None:
            ranks[offset] = Ranks(
                said=_text(tokenizer.token_bytes(token)),
                is_answer=index >= answer_from,
                probabilities={tokenizer.token_bytes(o.token): math.exp(o.logprob) for o in entry.top},
            )
        offset += len(tokenizer.token_bytes(token))
    return ranks


def align(target: Mapping[int, Ranks], drafter: Mapping[int, Ranks], *, shown: int) -> list[Position]:
    """Return the places that both models rank, in order of the text, with the `shown` best guesses of each."""
    places = sorted(target.keys() & drafter.keys())
    return [_position(index, target[place], drafter[place], shown) for index, place in enumerate(places)]


def _position(index: int, target: Ranks, drafter: Ranks, shown: int) -> Position:
    ours, theirs = list(target.probabilities), list(drafter.probabilities)
    few, other_few = set(ours[:shown]), set(theirs[:shown])
    return Position(
        index=index,
        said=target.said,
        is_answer=target.is_answer,
        target=_guesses(target, shown),
        drafter=_guesses(drafter, shown),
        jaccard=len(few & other_few) / len(few | other_few),
        agrees=ours[0] == theirs[0],
        overlap=sum(min(p, drafter.probabilities.get(word, 0.0)) for word, p in target.probabilities.items()),
        p=target.probabilities.get(theirs[0], 0.0),
        q=drafter.probabilities[theirs[0]],
    )


def _guesses(ranks: Ranks, shown: int) -> tuple[Guess, ...]:
    return tuple(Guess(text=_text(word), probability=p) for word, p in list(ranks.probabilities.items())[:shown])


def _text(word: bytes) -> str:
    return word.decode("utf-8", errors="replace")
