"""What sampled chains say of their chances: right on average, and nothing of the token that was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints, starts_of
from paradraft.core.records import DraftLaws, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftLaw
from paradraft.drafters.neural.overlap import BINS, Overlap
from support.drafting import DRAFTERS, RowText, batch_for, plan_for, verdict_of


def law_of(weights: np.ndarray) -> DraftLaw:
    probabilities = -np.sort(-weights / weights.sum())
    ids = ints(range(len(weights)))
    return DraftLaw(ids, ids, probabilities)


def chain_of(laws: list[DraftLaw]) -> Proposal:
    count = len(laws)
    return Proposal(
        starts=starts_of([count]),
        tokens=ints([0] * count),
        parents=ints(range(-1, count - 1)),
        depths=ints(range(1, count + 1)),
        sources=np.ones(count, dtype=np.uint32),
        laws=DraftLaws(
            of=ints(range(count)),
            starts=starts_of([len(law.ids) for law in laws]),
            ids=ints(np.concatenate([law.ids for law in laws])),
            probabilities=np.concatenate([law.probabilities for law in laws]),
        ),
    )


def test_chances_become_as_frequent_as_they_say() -> None:
    """The target's law is the draft's with some of its mass elsewhere, the more the less sure the draft is."""
    rng, overlap = np.random.default_rng(2), Overlap()
    seen = np.zeros((BINS, 3))
    for step in range(6000):
        laws = [law_of(rng.dirichlet([0.3] * 5)) for _ in range(3)]
        stands = [rng.random() < 0.4 + 0.5 * law.probabilities[0] ** 2 for law in laws]
        num_stood = stands.index(False) if False in stands else 3
        if step > 2000:
            for level, law in enumerate(laws[: num_stood + 1]):
                seen[int(law.probabilities[0] * BINS)] += (1.0, overlap.chance(law), stands[level])
        verdict = verdict_of((list(range(num_stood)), [0] * (num_stood + 1)))
        overlap.learn(chain_of(laws), verdict, 0)
    assert np.abs(seen[:, 1] - seen[:, 2]).sum() / seen[:, 0].sum() < 0.03
    assert overlap.chance(law_of(np.array([1.0, 1.0, 1.0]))) < overlap.chance(law_of(np.array([30.0, 1.0])))


def test_nodes_behind_the_first_refused_one_tell_nothing() -> None:
    sure, unsure, overlap = law_of(np.array([95.0, 5.0])), law_of(np.array([1.0, 1.0])), Overlap()
    before = overlap.chance(sure)
    overlap.learn(chain_of([unsure, sure]), verdict_of(([], [1])), 0)
    assert overlap.chance(sure) == before == pytest.approx(0.95)
    assert overlap.chance(unsure) < 0.5


def test_nodes_that_were_not_drawn_tell_nothing() -> None:
    overlap, law = Overlap(), law_of(np.array([1.0, 1.0]))
    overlap.learn(Proposal.chains([ints([4])]), verdict_of(([], [1])), 0)
    assert overlap.chance(law) == 0.5


@pytest.mark.parametrize("name", ["sampled network", "sampled stepped network"])
def test_sampled_networks_say_how_sure_they_are(name: str) -> None:
    row = RowText(tokens=[3, 1, 4, 1, 5, 9, 2, 6], params=SamplingParams(temperature=1.0))
    batch = batch_for(row)
    proposal = DRAFTERS[name]().propose(batch, plan_for(batch, 4))
    assert proposal.laws is not None
    assert proposal.confidence is not None
    assert len(proposal.confidence) == len(proposal.tokens) > 1
    assert (np.diff(proposal.confidence) < 0.0).all()
    chances = [float(proposal.laws.probabilities[start]) for start in proposal.laws.starts[:-1]]
    np.testing.assert_allclose(proposal.confidence, np.cumprod(chances), rtol=1e-5)
