"""Chains drawn from the laws that a network reports, for rules that sample (Leviathan et al., arXiv 2211.17192)."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.ports import Noise
from paradraft.drafters.candidates import DraftLaw, draws
from paradraft.drafters.draft import Draft
from paradraft.drafters.neural.guesses import SOURCE, NeuralGuesses
from paradraft.drafters.neural.overlap import Overlap


@dataclass(slots=True)
class DrawnDraft:
    """A row's draft with the law of each node, as drafters.model_draft.laws_of reads it; -1: chosen without a draw."""

    draft: Draft
    laws: list[DraftLaw] = field(default_factory=list)
    law_of: list[int] = field(default_factory=list)

    def draw(self, law: DraftLaw, noise: Noise, overlap: Overlap, *, start: int) -> int:
        """Draw the next token of a chain from a law and return it; its confidence is the law's, whatever is drawn."""
        draft, slot = self.draft, len(self.draft)
        [guess] = draws(law, 1, noise, position=start, first_node=slot)
        above = draft.confidence[-1] if slot else 1.0
        draft.add(guess.token, slot - 1, above * overlap.chance(law), SOURCE)
        self.law_of.append(len(self.laws))
        self.laws.append(law)
        return guess.token


def picked(draft: Draft) -> DrawnDraft:
    """Return a draft whose nodes were not drawn."""
    return DrawnDraft(draft, law_of=[-1] * len(draft))


def drawn_chain(guesses: NeuralGuesses, depth: int, noise: Noise, overlap: Overlap, *, start: int) -> DrawnDraft:
    """Draw `depth` tokens one after the other, each from the law its predecessor leaves; start is their first position.

    How many there are must not depend on what is drawn, or the rule would no longer be exact.
    """
    drawn = DrawnDraft(Draft())
    previous = guesses.anchor
    for slot in range(min(depth, guesses.num_slots)):
        previous = drawn.draw(guesses.law(slot, previous).drawn_from(), noise, overlap, start=start)
    return drawn
