from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.growth import Budget
from paradraft.drafters.guesses import Guesses, State
from paradraft.drafters.neural.selector import (
    HIGHEST_SURPRISE,
    NUM_DRAFTER_FEATURES,
    MeanEntropy,
    features_of,
    surprise,
)
from paradraft.drafters.neural.uncertain_tree import TREE_NODES, UncertainTree
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from support.drafting import RowText, batch_for, drafts_of, plan_for, verdict_of
from support.stub_target import StubScores

FREE = Price(0.0)
INNER_NEEDS = Needs(sources=("a", "b"), hidden_layers=(3,), is_sampled=True)
SURE = {1: 0.9, 2: 0.05}
UNSURE = {5: 0.3, 6: 0.25, 7: 0.2, 8: 0.1}


class PathGuesses:
    """Sure for some levels, unsure behind; a state is its path."""

    def __init__(self, num_sure: int, deepest: int = 99) -> None:
        self._num_sure = num_sure
        self._deepest = deepest

    def root(self) -> State:
        return ()

    def shares(self, state: State) -> dict[int, float]:
        assert isinstance(state, tuple)
        return dict(SURE if len(state) < self._num_sure else UNSURE) if len(state) < self._deepest else {}

    def descend(self, state: State, token: int) -> State | None:
        assert isinstance(state, tuple)
        return (*state, token)

    def source_of(self, state: State, token: int) -> int:
        return 2


def grown(num_sure: int, *, nodes: int = 30, depth: int = 30, price: Price = FREE, deepest: int = 99) -> UncertainTree:
    tree = UncertainTree(
        guesses=PathGuesses(num_sure, deepest),
        budget=Budget(nodes, depth, 0, price),
        is_uncertain=lambda shares, depth: max(shares.values()) < 0.5,
    )
    tree.draft = tree.grow()
    return tree


def widths(draft: Draft) -> list[int]:
    return [draft.depths.count(depth) for depth in range(1, max(draft.depths, default=0) + 1)]


def test_an_unsure_position_gets_three_six_and_three_nodes() -> None:
    draft = grown(0).draft
    assert widths(draft) == [3, 6, 3]
    assert len(draft) == TREE_NODES == 12
    followers = [draft.parents.count(parent) for parent in range(3)]
    assert followers == [2, 2, 2]
    # The last level hangs on the three likeliest of the six.
    best = sorted(range(3, 9), key=lambda node: draft.confidence[node], reverse=True)[:3]
    assert sorted(draft.parents[9:]) == sorted(best)


def test_a_sure_path_is_followed_until_it_becomes_unsure() -> None:
    tree = grown(4)
    assert widths(tree.draft) == [1, 1, 1, 1, 3, 6, 3]
    assert tree.sure_depth == 4
    assert (tree.num_asked, tree.num_unsure) == (5, 1)


def test_a_path_that_stays_sure_is_a_chain_within_the_budget() -> None:
    tree = grown(99, nodes=12)
    assert widths(tree.draft) == [1] * 12
    assert tree.sure_depth is None


@pytest.mark.parametrize(("nodes", "depth"), [(5, 30), (12, 2), (1, 1), (0, 0), (7, 6)])
def test_budgets_hold_and_parents_come_first(nodes: int, depth: int) -> None:
    draft = grown(1, nodes=nodes, depth=depth).draft
    assert len(draft) <= nodes
    assert max(draft.depths, default=0) <= depth
    assert all(parent < node for node, parent in enumerate(draft.parents))
    assert len({*zip(draft.parents, draft.tokens, strict=True)}) == len(draft)
    assert all(source == 2 for source in draft.sources)


def test_nodes_that_do_not_pay_are_left_out() -> None:
    assert len(grown(0, price=Price(0.1)).draft) < 12
    assert len(grown(0, price=Price(0.9)).draft) == 0
    assert widths(grown(3, deepest=2).draft) == [1, 1]


def test_features_tell_top_share_margin_entropy_and_depth() -> None:
    features = features_of(np.array([0.5, 2.5], dtype=np.float32), {3: 0.5, 4: 0.25}, 4)
    entropy = 0.5 * np.log(2) + 0.5 * np.log(4)
    assert features.tolist() == pytest.approx([0.5, 2.5, 0.5, 0.25, entropy, 0.5])
    assert features_of(np.zeros(2, dtype=np.float32), {}, 0)[2:].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert len(features) == 2 + NUM_DRAFTER_FEATURES


def test_surprise_is_bounded() -> None:
    assert surprise({3: 0.5}, 3) == pytest.approx(np.log(2))
    assert surprise({3: 0.5}, 4) == surprise({3: 1e-30}, 3) == HIGHEST_SURPRISE


def test_without_training_the_mean_entropy_of_the_heads_decides_at_1_8_nats() -> None:
    selector = MeanEntropy(layer=29)
    assert selector.threshold == 1.8
    features = features_of(np.array([1.0, 3.0], dtype=np.float32), SURE, 0)
    assert selector.expected_surprise(features) == pytest.approx(2.0)


@dataclass
class PathDrafter:
    """Guesses with PathGuesses; remembers what it was told."""

    num_sure: int = 0
    needs: Needs = INNER_NEEDS
    observed: list[Proposal] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        raise AssertionError("the guesses are asked for, not the proposal")

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        return [PathGuesses(self.num_sure) if nodes else None for nodes in plan.num_nodes.tolist()]

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        self.observed.append(proposal)

    def forget(self, rows: IntArray) -> None:
        self.forgotten.extend(rows.tolist())


class EntropyScores(StubScores):
    """Entropies that name their place: fed token i has i + head / 10."""

    def attention_entropy(self, layer: int) -> FloatArray:
        assert layer == 29
        count = int(self.fed_starts[-1])
        return np.arange(count, dtype=np.float32)[:, None] + np.array([[0.0, 0.1]], dtype=np.float32)


def scores_of(batch: Batch, proposal: Proposal) -> EntropyScores:
    fed = starts_of(batch.num_pending + proposal.num_nodes)
    return EntropyScores([], fed, fed)


@dataclass
class Watching:
    """Never unsure; remembers the features it was shown."""

    layer: int = 29
    threshold: float = 1.8
    seen: list[FloatArray] = field(default_factory=list)
    answer: float = 0.0

    def expected_surprise(self, features: FloatArray) -> float:
        self.seen.append(features)
        return self.answer


def rows(*lengths: int) -> Batch:
    return batch_for(*[RowText(tokens=list(range(length)), row=row) for row, length in enumerate(lengths)])


def test_needs_are_the_inner_ones_and_the_attention_of_one_layer() -> None:
    needs = UncertaintyDrafter(PathDrafter(), MeanEntropy(layer=29)).needs
    assert needs == Needs(sources=("a", "b"), hidden_layers=(3,), entropy_layers=(29,), weighs_nodes=True)


def test_the_entropies_are_those_of_the_token_that_chose_the_anchor() -> None:
    selector = Watching()
    drafter = UncertaintyDrafter(PathDrafter(num_sure=9), selector, node_cost=0.0)
    batch = rows(5, 6)
    proposal = drafter.propose(batch, plan_for(batch, [2, 3]))
    assert selector.seen == []  # nothing was fed yet, so nobody is called unsure
    # Fed: row 0 at 0 (pending), 1, 2 (nodes); row 1 at 3, 4, 5, 6. Row 0 accepts both nodes, row 1 none.
    drafter.observe(batch, proposal, scores_of(batch, proposal), verdict_of(([0, 1], [1, 1, 9]), ([], [4])))
    drafter.propose(batch, plan_for(batch, [1, 1]))
    assert [features[:2].tolist() for features in selector.seen] == [
        pytest.approx([2.0, 2.1]),
        pytest.approx([3.0, 3.1]),
    ]


def unsure_after_a_step(drafter: UncertaintyDrafter) -> tuple[Batch, Proposal]:
    """Feed a step without drafts, so that entropies are known, and draft behind it."""
    batch = rows(5)
    empty = Proposal.empty(1)
    drafter.observe(batch, empty, scores_of(batch, empty), verdict_of(([], [4])))
    return batch, drafter.propose(batch, plan_for(batch, 12))


def test_a_selector_that_is_surprised_makes_a_tree_and_another_a_chain() -> None:
    sure = UncertaintyDrafter(PathDrafter(), Watching(answer=1.7), node_cost=0.0)
    assert [parent for _, parent in drafts_of(unsure_after_a_step(sure)[1], 0)] == list(range(-1, 11))
    unsure = UncertaintyDrafter(PathDrafter(), Watching(answer=1.9), node_cost=0.0)
    proposal = unsure_after_a_step(unsure)[1]
    assert np.bincount(proposal.depths).tolist() == [0, 3, 6, 3]


def test_counts_tell_the_share_of_nodes_at_uncertain_positions_and_what_stood() -> None:
    inner = PathDrafter(num_sure=2)

    @dataclass
    class ByShare(Watching):
        def expected_surprise(self, features: FloatArray) -> float:
            return 3.0 if features[2] < 0.5 else 0.0

    drafter = UncertaintyDrafter(inner, ByShare(), node_cost=0.0)
    batch, proposal = unsure_after_a_step(drafter)
    assert np.bincount(proposal.depths).tolist() == [0, 1, 1, 3, 6, 1]
    drafter.observe(batch, proposal, scores_of(batch, proposal), verdict_of(([0, 1, 2], [1, 1, 5, 9])))
    counts = drafter.counts
    assert (counts.nodes, counts.uncertain_nodes) == (12, 10)
    assert (counts.accepted, counts.uncertain_accepted) == (3, 1)
    assert (counts.positions, counts.uncertain_positions) == (3, 1)
    assert counts.node_share == pytest.approx(10 / 12)
    assert inner.observed[-1].confidence is None


def test_logged_positions_are_features_with_the_surprise_that_came() -> None:
    drafter = UncertaintyDrafter(PathDrafter(num_sure=1), Watching(), node_cost=0.0)
    drafter.start_log(100)
    batch, proposal = unsure_after_a_step(drafter)
    drafter.observe(batch, proposal, scores_of(batch, proposal), verdict_of(([0], [1, 6])))
    features, surprises = drafter.take_log()
    assert surprises.tolist() == pytest.approx([-np.log(0.9), -np.log(0.25)])
    assert features[:, 2].tolist() == pytest.approx([0.9, 0.3])
    assert features[:, 0].tolist() == [0.0, 0.0]  # of the step before: the guesses were made with those
    assert len(drafter.take_log()[0]) == 0


def test_a_log_is_bounded_and_off_by_default() -> None:
    for num_logged, expected in ((0, 0), (5, 5)):
        drafter = UncertaintyDrafter(PathDrafter(num_sure=1), Watching(), node_cost=0.0)
        if num_logged:
            drafter.start_log(num_logged)
        for _ in range(6):
            batch, proposal = unsure_after_a_step(drafter)
            drafter.observe(batch, proposal, scores_of(batch, proposal), verdict_of(([0], [1, 6])))
        assert len(drafter.take_log()[1]) == expected


def test_forgetting_reaches_the_inner_drafter_and_the_entropies() -> None:
    inner, selector = PathDrafter(), Watching()
    drafter = UncertaintyDrafter(inner, selector, node_cost=0.0)
    batch, _ = unsure_after_a_step(drafter)
    seen = len(selector.seen)
    drafter.forget(ints([0]))
    assert inner.forgotten == [0]
    drafter.propose(batch, plan_for(batch, 3))
    assert len(selector.seen) == seen


def judge(shares: Mapping[int, float], depth: int) -> bool:
    raise AssertionError("there is nothing to judge")


def test_where_the_drafter_says_nothing_nothing_is_judged() -> None:
    tree = UncertainTree(guesses=PathGuesses(0, deepest=0), budget=Budget(9, 9, 0, FREE), is_uncertain=judge)
    assert len(tree.grow()) == 0
