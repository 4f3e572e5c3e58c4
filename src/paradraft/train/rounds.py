"""Counts of rounds of drafting, simulated on a known text or taken from an engine, in one form so that they compare.

A round drafts from an anchor, and a prefix of the draft stands; with the target's own token behind it the next anchor
is reached. A round counts where the text goes on for a whole block and more, as in the engine's tau.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from torch import Tensor

from paradraft.core.events import GenerationStats
from paradraft.nets.networks.net import Net
from paradraft.train.anchors import all_anchors
from paradraft.train.examples import Example
from paradraft.train.simulate import hits_at

_AT_ONCE = 128  # anchors


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Sums over rounds. drafted[k]: rounds with a draft of k + 1 tokens or more, standing[k]: where so many stood."""

    rounds: int = 0
    tokens: int = 0
    drafted: tuple[int, ...] = ()
    standing: tuple[int, ...] = ()

    @property
    def tau(self) -> float:
        """Return the tokens per round, the target's own included; 1.0 is plain decoding."""
        return self.tokens / self.rounds if self.rounds else 1.0

    def by_position(self) -> tuple[float, ...]:
        """Return for each position the share of drafts reaching it that stood up to it."""
        return tuple(stood / max(count, 1) for stood, count in zip(self.standing, self.drafted, strict=True))

    @staticmethod
    def add(parts: Iterable[Rounds]) -> Rounds:
        """Return the sum."""
        listed = list(parts)
        return Rounds(
            rounds=sum(part.rounds for part in listed),
            tokens=sum(part.tokens for part in listed),
            drafted=_add_columns(part.drafted for part in listed),
            standing=_add_columns(part.standing for part in listed),
        )

    @staticmethod
    def served(stats: GenerationStats) -> Rounds:
        """Return what an engine counted for a drafter of chains."""
        missing = (0,) * (len(stats.drafted_by_depth) - len(stats.accepted_by_depth))
        return Rounds(
            rounds=stats.rounds,
            tokens=stats.round_tokens,
            drafted=stats.drafted_by_depth,
            standing=stats.accepted_by_depth + missing,
        )


def simulate_rounds(net: Net, example: Example, scale: Tensor | None) -> Rounds:
    """Return the rounds that greedy decoding of this text would have, with drafts of whole blocks."""
    lengths = accepted_lengths(net, example, scale)
    at, last, width = example.prompt_len, len(example.ids) - 1, net.config.block_size
    rounds, tokens, drafted, standing = 0, 0, [0] * width, [0] * width
    while at < last:
        room = last - at
        stood = min(lengths[at - example.prompt_len], room - 1)  # the text's last token comes with the pass
        if room > width:
            rounds, tokens = rounds + 1, tokens + stood + 1
        for place in range(min(width, room - 1)):
            drafted[place] += 1
            standing[place] += place < stood
        at += stood + 1
    return Rounds(rounds=rounds, tokens=tokens, drafted=tuple(drafted), standing=tuple(standing))


def accepted_lengths(net: Net, example: Example, scale: Tensor | None) -> list[int]:
    """Return how many drafts stand at every anchor of a text, in order."""
    anchors = all_anchors(example.prompt_len, len(example.ids))
    lengths: list[int] = []
    for low in range(0, len(anchors), _AT_ONCE):
        hits = hits_at(net, example, anchors[low : low + _AT_ONCE], scale)
        lengths += hits.int().cumprod(1).sum(1).tolist()
    return lengths


def _add_columns(columns: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip_longest(*columns, fillvalue=0)))
