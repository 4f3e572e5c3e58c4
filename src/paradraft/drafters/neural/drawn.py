"""Chains drawn from the laws that a network reports, for rules that sample (Leviathan et al., arXiv 2211.17192)."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.ports import Noise
from paradraft.drafters.candidates import DraftLaw, draws
from paradraft.drafters.draft import Draft
from paradraft.drafters.neural.guesses import SOURCE, NeuralGuesses


@dataclass(slots=True)
class DrawnDraft:
    """A row's draft with the law of each node, as drafters.model_draft.laws_of reads it; -1: chosen without a draw."""

    draft: Draft
    laws: list[DraftLaw] = field(default_factory=list)
    law_of: list[int] = field(default_factory=list)


def picked(draft: Draft) -> DrawnDraft:
    """Return a draft whose nodes were not drawn."""
    return DrawnDraft(draft, law_of=[-1] * len(draft))


def drawn_chain(guesses: NeuralGuesses, depth: int, noise: Noise, *, start: int) -> DrawnDraft:
    """Draw `depth` tokens one after the other, each from the law its predecessor leaves; start is their first position.

    How many there are must not depend on what is drawn, or the rule would no longer be exact.
    """
    drawn = DrawnDraft(Draft())
    previous = guesses.anchor
    for slot in range(min(depth, guesses.num_slots)):
        law = guesses.law(slot, previous).drawn_from()
        [guess] = draws(law, 1, noise, position=start, first_node=slot)
        drawn.draft.add(guess.token, slot - 1, 1.0, SOURCE)
        drawn.law_of.append(len(drawn.laws))
        drawn.laws.append(law)
        previous = guess.token
    return drawn
