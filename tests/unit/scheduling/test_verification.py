from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paradraft.core.arrays import ints, starts_of
from paradraft.core.records import DraftLaws, Proposal, Verdict
from paradraft.scheduling.calibration import Calibration, OnlineCalibration
from paradraft.scheduling.costs import PassCosts
from paradraft.scheduling.verification import PROBE_EVERY, ScheduledDrafter, VerificationBudget, cut
from support.drafting import RowText, batch_for, drafts_of, plan_for, verdict_of
from support.fake_drafters import FakeDrafter


def costs_of(per_token: float) -> PassCosts:
    costs = PassCosts()
    for tokens in [*range(1, 33)] * 3:
        costs.observe(tokens, 0.010 * (1 + per_token * (tokens - 1)))
    return costs


def batch(count: int):
    return batch_for(*[RowText(tokens=[1, 2, 3], row=row) for row in range(count)])


def chains(*confidence: list[float], laws: bool = False) -> Proposal:
    flat = [value for row in confidence for value in row]
    proposal = Proposal.chains([ints(range(len(row))) for row in confidence])
    point = DraftLaws(
        of=ints(range(len(flat))),
        starts=starts_of([1] * len(flat)),
        ids=proposal.tokens,
        probabilities=np.ones(len(flat)),
    )
    return replace(proposal, confidence=np.array(flat, dtype=np.float32), laws=point if laws else None)


def test_flat_passes_verify_everything_and_steep_ones_what_pays() -> None:
    proposal = chains([0.9, 0.7, 0.2, 0.05])
    assert VerificationBudget(costs=costs_of(0.0)).choose(batch(1), proposal).num_nodes.tolist() == [4]
    assert VerificationBudget(costs=costs_of(0.2)).choose(batch(1), proposal).num_nodes.tolist() == [2]
    assert VerificationBudget(costs=costs_of(1.0)).choose(batch(1), proposal).num_nodes.tolist() == [0]


def test_the_batch_shares_one_budget_and_confident_rows_get_more_of_it() -> None:
    chosen = VerificationBudget(costs=costs_of(0.1)).choose(
        batch(3), chains([0.95, 0.9, 0.85], [0.2, 0.1, 0.05], [0.8, 0.1, 0.01])
    )
    assert chosen.num_nodes.tolist() == [3, 0, 1]


def test_the_budget_is_the_best_of_all() -> None:
    """No other prefix-closed choice promises more tokens per second, by looking at all of them."""
    costs, rng = costs_of(0.15), np.random.default_rng(3)
    for _ in range(20):
        rows = [np.cumprod(rng.uniform(0.2, 1.0, 3)).tolist() for _ in range(3)]
        chosen = VerificationBudget(costs=costs).choose(batch(3), chains(*rows))

        def rate(lengths: tuple[int, ...], rows: list[list[float]] = rows) -> float:
            expected = 3 + sum(sum(row[:length]) for row, length in zip(rows, lengths, strict=True))
            return expected / (costs.seconds(3 + sum(lengths)) or 1.0)

        best = max(rate((a, b, c)) for a in range(4) for b in range(4) for c in range(4))
        assert rate(tuple(chosen.num_nodes.tolist())) == pytest.approx(best, rel=1e-6)


def test_a_tree_keeps_parents_and_its_order() -> None:
    proposal = replace(
        chains([0.6, 0.3, 0.55, 0.5, 0.02]), parents=ints([-1, -1, 0, 2, 1]), depths=ints([1, 1, 2, 3, 2])
    )
    chosen = VerificationBudget(costs=costs_of(0.2)).choose(batch(1), proposal)
    assert drafts_of(chosen, 0) == [(0, -1), (2, 0), (3, 1)]
    assert chosen.depths.tolist() == [1, 2, 3]
    assert chosen.confidence is not None
    assert chosen.confidence.tolist() == pytest.approx([0.6, 0.55, 0.5])


def test_cutting_renumbers_every_row() -> None:
    proposal = replace(chains([0.5, 0.4, 0.3], [0.9, 0.8], laws=True), sources=np.arange(5, dtype=np.uint32))
    part = cut(proposal, [0, 3, 4])
    assert part.starts.tolist() == [0, 1, 3]
    assert part.parents.tolist() == [-1, -1, 0]
    assert part.sources.tolist() == [0, 3, 4]
    assert part.laws is not None
    assert part.laws.of.tolist() == [0, 3, 4]


def test_without_costs_or_confidence_nothing_is_left_out() -> None:
    proposal = chains([0.01, 0.001])
    assert VerificationBudget(costs=PassCosts()).choose(batch(1), proposal) is proposal
    silent = replace(proposal, confidence=None)
    assert VerificationBudget(costs=costs_of(1.0)).choose(batch(1), silent) is silent


def test_calibration_decides_not_the_raw_confidence() -> None:
    budget = VerificationBudget(
        costs=costs_of(0.3), calibration=OnlineCalibration(Calibration(temperatures=(4.0, 4.0)))
    )
    assert budget.choose(batch(1), chains([0.7, 0.6])).num_nodes.tolist() == [1]
    assert VerificationBudget(costs=costs_of(0.3)).choose(batch(1), chains([0.7, 0.6])).num_nodes.tolist() == [2]


def test_now_and_then_everything_is_verified_so_that_refused_confidence_can_prove_itself() -> None:
    budget = VerificationBudget(costs=costs_of(1.0))
    sizes = [len(budget.choose(batch(1), chains([0.5, 0.1])).tokens) for _ in range(2 * PROBE_EVERY)]
    assert sizes.count(2) == 2
    assert sizes.count(0) == len(sizes) - 2
    assert budget.num_dropped == 2 * sizes.count(0)


def test_sampled_drafts_are_cut_by_the_price_of_earlier_steps_only() -> None:
    """What was drawn in this step may not decide on itself, so the first step cuts nothing."""
    budget = VerificationBudget(costs=costs_of(0.2))
    unsure = chains([0.3, 0.1, 0.01], laws=True)
    assert budget.choose(batch(1), unsure).num_nodes.tolist() == [3]
    assert budget.choose(batch(1), unsure).num_nodes.tolist() == [1]
    # A path's length depends on nothing behind it.
    price = budget._price
    longer = chains([0.3, 0.1, 0.01, 0.009, 0.008], laws=True)
    budget._price = price
    assert budget.choose(batch(1), longer).num_nodes.tolist() == [1]


def test_sampled_trees_are_left_whole() -> None:
    tree = replace(chains([0.3, 0.01], laws=True), parents=ints([-1, -1]), depths=ints([1, 1]))
    budget = VerificationBudget(costs=costs_of(1.0))
    assert [len(budget.choose(batch(1), tree).tokens) for _ in range(3)] == [2, 2, 2]


def test_verified_nodes_teach_the_calibration_what_stood() -> None:
    budget = VerificationBudget(costs=costs_of(0.0))
    budget.observe(chains([0.9, 0.8], [0.7]), verdict_of(([0], [0, 9]), ([], [4])))
    assert budget.calibration.remembered().stood.tolist() == [True, False, False]


class Confident(FakeDrafter):
    def propose(self, batch, plan) -> Proposal:
        return chains(*([[0.9, 0.01]] * batch.num_rows))

    def observe(self, batch, proposal, scores, verdict) -> None:
        self.observed = proposal


def test_the_drafter_observes_what_was_verified() -> None:
    inner = Confident()
    drafter = ScheduledDrafter(inner, VerificationBudget(costs=costs_of(0.2)))
    rows = batch(2)
    proposal = drafter.propose(rows, plan_for(rows, 2))
    assert proposal.num_nodes.tolist() == [1, 1]
    verdict: Verdict = verdict_of(([0], [0, 5]), ([], [6]))
    drafter.observe(rows, proposal, None, verdict)
    assert inner.observed is proposal
    drafter.forget(ints([1]))
    assert inner.forgotten == [1]
