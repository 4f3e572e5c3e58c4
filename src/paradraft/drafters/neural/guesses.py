"""What a network said about one row, asked for path by path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.guesses import State
from paradraft.drafters.neural.law import SlotLaw, slot_law, told
from paradraft.nets.serving.rounds import Marginals

SOURCE = 1  # the only bit

Place = tuple[int, int]  # slot, and the token before it


@dataclass(slots=True, eq=False)
class NeuralGuesses:
    """Implements drafters.guesses.Guesses over the marginals of one row.

    All branches share the slots' marginals; with a causal correction a branch's own last token bends them. Of more
    candidates than may be told, the likeliest are; where the target's noise is known, those it is likeliest to choose.
    """

    marginals: Marginals
    row: int
    anchor: int
    params: SamplingParams
    coupling: Coupling | None = None
    _known: dict[Place, dict[int, float]] = field(default_factory=dict)

    @property
    def num_slots(self) -> int:
        """Return K."""
        return len(self.marginals.ids[self.row])

    def root(self) -> State:
        """Return the state of the empty path."""
        return 0, self.anchor

    def shares(self, state: State) -> dict[int, float]:
        """Return token -> chance that it comes next; without a correction it is the same on all branches."""
        slot, previous = cast(Place, state)
        key = (slot, previous if self.marginals.correction is not None or self.marginals.confidence is not None else 0)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._told(slot, previous)
        return dict(found)

    def descend(self, state: State, token: int) -> State | None:
        """Return the state behind any token, None behind the last slot."""
        slot, _ = cast(Place, state)
        return (slot + 1, token) if slot + 1 < self.num_slots else None

    def source_of(self, state: State, token: int) -> int:
        """Return the network's bit if the token is one of the shares."""
        return SOURCE if token in self.shares(state) else 0

    def law(self, slot: int, previous: int) -> SlotLaw:
        """Return the law of a slot if `previous` comes before."""
        return slot_law(self.marginals, (self.row, slot), previous, self.params)

    def _told(self, slot: int, previous: int) -> dict[int, float]:
        law = self.law(slot, previous)
        kept = told(law, slot, self.coupling)
        ids, chances = law.ids[kept].tolist(), law.probabilities[kept].tolist()
        confidence = self.marginals.confidence
        if confidence is not None and self.params.is_greedy:
            chances = _agreeing(chances, confidence.chance(self.row, slot, previous))
        return dict(zip(ids, chances, strict=True))


def _agreeing(chances: list[float], best: float) -> list[float]:
    """Return the chances with the first one set to `best`, the others sharing what is left as before."""
    others = 1.0 - chances[0]
    scale = (1.0 - best) / others if others > 0.0 else 0.0
    return [best, *[min(chance * scale, best) for chance in chances[1:]]]
