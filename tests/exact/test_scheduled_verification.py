"""Leaving out sampled drafts keeps the target's law as long as nothing decides on itself, by enumeration in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.kv.pages import PageCache
from paradraft.scheduling.costs import PassCosts
from paradraft.scheduling.verification import ScheduledDrafter, VerificationBudget
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.law import law_of
from paradraft.verify.rules import make_rule
from support.drafting import RowText, batch_for, plan_for
from support.enumeration import ForkingNoise, continued, outcomes, total_variation
from support.steps import Draft, scores_of
from support.stub_target import StubTarget, hashed_law

VOCAB, DEPTH = 4, 2
KNOWN = [2, 1, 3, 2, 1, 0, 2, 1]
TARGET = hashed_law(VOCAB, spread=1.0)
WARM = SamplingParams(temperature=1.0)
Confidence = Callable[[float, DoubleArray], float]  # of a drawn token: its probability, and its whole law


def best(_share: float, law: DoubleArray) -> float:
    """Known before the token is drawn."""
    return float(law.max())


def own(share: float, _law: DoubleArray) -> float:
    """Known only when it is drawn: a cut by it prefers likely tokens."""
    return share


class Confident(ModelDrafter):
    """Draws from the laws it reports and says how sure it is."""

    confidence: Confidence = staticmethod(best)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        proposal = super().propose(batch, plan)
        laws = proposal.laws
        assert laws is not None
        values: list[float] = []
        for token, law in zip(proposal.tokens.tolist(), laws.of.tolist(), strict=True):
            part = slice(int(laws.starts[law]), int(laws.starts[law + 1]))
            share = dict(zip(laws.ids[part].tolist(), laws.probabilities[part].tolist(), strict=True))[token]
            above = values[-1] if values else 1.0
            values.append(above * type(self).confidence(share, laws.probabilities[part]))
        return replace(proposal, confidence=np.array(values, dtype=np.float32))


class Anticipating(Confident):
    confidence = staticmethod(own)


def steep() -> PassCosts:
    costs = PassCosts()
    for tokens in [*range(1, 9)] * 3:
        costs.observe(tokens, 0.010 * (1 + 0.3 * (tokens - 1)))
    return costs


def target_law(tokens: tuple[int, ...]) -> DoubleArray:
    history = np.array([*KNOWN, *tokens], dtype=np.int32)
    law = law_of(TARGET(tuple(history.tolist())), batch_for(RowText(tokens=KNOWN, params=WARM)).sampling[0], history)
    vector = np.zeros(VOCAB)
    vector[slice(None) if law.ids is None else law.ids] = law.probabilities
    return vector


def distance(drafter: type[Confident], rule: str, price: float) -> tuple[float, set[int]]:
    """Return the total variation from the target's law, and the draft lengths that were verified."""
    lengths: set[int] = set()

    def emit(noise: ForkingNoise) -> tuple[int, ...]:
        batch = batch_for(RowText(tokens=KNOWN, params=WARM))
        inner = drafter(
            target=StubTarget(hashed_law(VOCAB, spread=1.0, salt=4), vocab_size=VOCAB),
            pages=PageCache(num_pages=64, page_size=4),
            vocab_size=VOCAB,
            options=ModelDrafterOptions(is_sampled=True),
            noise=lambda seed, choice: noise,
        )
        budget = VerificationBudget(costs=steep())
        budget._price = price
        proposal = ScheduledDrafter(inner, budget).propose(batch, plan_for(batch, DEPTH))
        lengths.add(len(proposal.tokens))
        draft = Draft(tokens=proposal.tokens.tolist(), parents=proposal.parents.tolist())
        acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise)
        return tuple(acceptor.accept(batch, proposal, scores_of(batch, [draft], TARGET)).tokens_of(0).tolist())

    emitted: dict[tuple[int, ...], float] = {}
    for chance, tokens in outcomes(emit):
        emitted[tokens] = emitted.get(tokens, 0.0) + chance
    law = partial(target_law)
    return total_variation(continued(emitted, law, DEPTH + 1), continued({(): 1.0}, law, DEPTH + 1)), lengths


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive"])
@pytest.mark.parametrize("price", [0.3, 0.9])
def test_lengths_that_follow_from_the_path_so_far_keep_the_law(rule: str, price: float) -> None:
    error, lengths = distance(Confident, rule, price)
    assert error < 1e-9
    assert lengths == ({1, 2} if price < 0.5 else {0})


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_enumeration_sees_a_length_that_depends_on_the_token_itself(rule: str) -> None:
    """Confidence of the very token that was drawn must not be reported beside laws: this shows why."""
    error, lengths = distance(Anticipating, rule, 0.25)
    assert len(lengths) > 1
    assert error > 1e-3
