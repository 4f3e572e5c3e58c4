from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import Proposal
from paradraft.drafters.trust import FORGETTING, HIGHEST, PRIOR, Trust
from support.drafting import verdict_of


def proposal(parents: list[int], confidence: list[float] | None) -> Proposal:
    count = len(parents)
    return Proposal(
        starts=ints([0, count]),
        tokens=ints(range(count)),
        parents=ints(parents),
        depths=ints([1] * count),
        sources=np.ones(count, dtype=np.uint32),
        confidence=None if confidence is None else np.array(confidence, dtype=np.float32),
    )


CHAIN = proposal([-1, 0, 1], [0.5, 0.25, 0.125])


def test_a_full_accept_counts_every_level_and_nothing_beyond() -> None:
    trust = Trust()
    trust.learn(CHAIN, verdict_of(([0, 1, 2], [0, 1, 2, 9])), 0)
    accepted = 1 * FORGETTING**2 + FORGETTING + 1
    assert trust.use() == pytest.approx((accepted + PRIOR) / (accepted / 2 + PRIOR))


def test_levels_behind_a_refusal_were_not_tested() -> None:
    once = Trust()
    once.learn(CHAIN, verdict_of(([], [9])), 0)
    short = Trust()
    short.learn(proposal([-1], [0.5]), verdict_of(([], [9])), 0)
    assert once.use() == short.use() < 1.0


def test_siblings_are_tested_together() -> None:
    trust = Trust()
    trust.learn(proposal([-1, -1, 1], [0.5, 0.4, 0.2]), verdict_of(([1], [1, 9])), 0)
    assert trust.use() == pytest.approx((FORGETTING + PRIOR) / (0.9 * FORGETTING + 0.5 + PRIOR))


def test_trust_stays_within_bounds() -> None:
    low, high = Trust(), Trust()
    for _ in range(500):
        low.learn(CHAIN, verdict_of(([], [9])), 0)
        high.learn(proposal([-1], [0.1]), verdict_of(([0], [0, 9])), 0)
    assert 0.1 < low.use() < 0.2
    assert high.use() == HIGHEST


def test_a_proposal_without_estimates_teaches_nothing() -> None:
    trust = Trust()
    trust.learn(proposal([-1], None), verdict_of(([], [9])), 0)
    trust.learn(proposal([], []), verdict_of(([], [9])), 0)
    assert trust.use() == 1.0


def test_estimates_are_judged_without_the_trust_they_were_scaled_by() -> None:
    """Where every fourth level stands instead of every second, trust settles at what the unscaled estimates deserve."""
    trust = Trust()
    for turn in range(400):
        path = [0] if turn % 4 == 0 else []
        trust.learn(proposal([-1], [0.5 * trust.use()]), verdict_of((path, [9] * (len(path) + 1))), 0)
    past = 1 / (1 - FORGETTING)
    assert trust.use() == pytest.approx((past / 4 + PRIOR) / (past / 2 + PRIOR), abs=0.03)
