"""Guesses from counts of the row's own text: what it went on with after its last 1, 2, ... tokens.

A cache model (Kuhn and De Mori, 1990). Suffix decoding asks the latest occurrences of the longest match; this counts
all of them at every length, and the two together know more than either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan
from paradraft.drafters.guesses import Guesses, State, likeliest
from paradraft.drafters.lookup_drafter import Growth, LookupDrafter
from paradraft.drafters.rows import RowStates
from paradraft.drafters.table.interpolation import Seen, interpolated
from paradraft.drafters.trust import Trust

LENGTHS = (1, 2, 3, 4, 6)
MAX_CONTINUATIONS = 8  # of one context; the rarest goes
_DISCOUNTS = (0.0, 0.6, 0.9, 1.2)  # taken off counts of 1, 2 and more: half of what is seen once comes again

Counts = dict[tuple[int, ...], dict[int, int]]


@dataclass(slots=True)
class _Row:
    counts: Counts = field(default_factory=dict)
    num_counted: int = 0
    trust: Trust = field(default_factory=Trust)


class RecentDrafter(LookupDrafter[_Row]):
    """Drafts from counts of each row's own text, prompt included; nothing of it is told to other rows.

    A row's last max_row_tokens are counted when it first appears; about 700 bytes for each token.
    node_cost, is_coupled: see Growth.
    """

    needs = Needs(sources=("recent",), weighs_nodes=True)

    def __init__(self, *, node_cost: float | None = None, max_row_tokens: int = 4096, is_coupled: bool = False) -> None:
        super().__init__(RowStates(lambda _batch, _index: _Row()), Growth(node_cost=node_cost, is_coupled=is_coupled))
        self._max_row_tokens = max_row_tokens

    def look_up(self, row: _Row, batch: Batch, plan: Plan, index: int) -> Guesses | None:
        """Return the counts behind the row's last tokens."""
        if not plan.num_nodes[index]:
            return None
        history = batch.history[index]
        first = max(row.num_counted, len(history) - self._max_row_tokens, 0)
        _count(row.counts, history[max(first - LENGTHS[-1], 0) :].tolist(), min(first, LENGTHS[-1]))
        row.num_counted = len(history)
        return RecentGuesses(row.counts, tuple(history[-LENGTHS[-1] :][::-1].tolist()))


@dataclass(frozen=True, slots=True)
class RecentGuesses:
    """The counts behind a context; states are contexts, the newest token first."""

    counts: Counts
    context: tuple[int, ...]

    def root(self) -> State:
        """Return the row's own last tokens."""
        return self.context

    def shares(self, state: State) -> dict[int, float]:
        """Return the chances after a context."""
        assert isinstance(state, tuple)
        return likeliest(interpolated(self._found(state))[0])

    def _found(self, context: tuple[int, ...]) -> list[Seen]:
        """Return what came after each length of a context, the shortest first, up to the first that was not seen."""
        found: list[Seen] = []
        for length in LENGTHS:
            seen = self.counts.get(context[:length])
            if seen is None or length > len(context):
                break
            found.append((sum(seen.values()), seen.items(), _DISCOUNTS))
        return found

    def descend(self, state: State, token: int) -> State | None:
        """Return the context one token further."""
        assert isinstance(state, tuple)
        return (token, *state[: LENGTHS[-1] - 1])

    def source_of(self, state: State, token: int) -> int:
        """Return the bit of the text if the token followed the context's last one."""
        assert isinstance(state, tuple)
        return int(token in self.counts.get(state[:1], ()))


def _count(counts: Counts, words: Sequence[int], first: int) -> None:
    """Count the words from place `first` on as continuations of what stands before them."""
    for place in range(max(first, 1), len(words)):
        token = words[place]
        before = tuple(words[max(place - LENGTHS[-1], 0) : place][::-1])
        for length in LENGTHS:
            if length > place:
                break
            seen = counts.get(before[:length])
            if seen is None:
                counts[before[:length]] = {token: 1}
                continue
            seen[token] = seen.get(token, 0) + 1
            if len(seen) > MAX_CONTINUATIONS:
                del seen[min(seen, key=seen.__getitem__)]
