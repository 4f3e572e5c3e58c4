"""Rules and drafters with well-known faults: the enumeration must find every one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paradraft.core.ports import Noise
from paradraft.verify.block import BlockRule
from paradraft.verify.law import Law
from paradraft.verify.noise import ACCEPT, RESIDUAL, lane
from paradraft.verify.recursive import RecursiveRule
from paradraft.verify.rejection import RejectionRule
from paradraft.verify.residual import residual
from paradraft.verify.rules import Rule
from paradraft.verify.tree import ROOT, RowTree, Walk
from support.draft_sampling import (
    Drafting,
    LawOf,
    best_chain,
    draw,
    law_by_prefix,
    merged_tree,
    sampled_chain,
    sampled_tree,
    sparse,
)
from support.exactness import distance_from_target
from support.steps import Draft

VISIBLE = 1e-3
P, Q = law_by_prefix("random", 4, 1), law_by_prefix("random", 4, 2)


def pick(noise: Noise, law: Law, position: int, stream: int) -> int:
    return law.token(noise.choose(law.probabilities, law.ids, position=position, stream=stream))


class EqualsASample(RejectionRule):
    """Accepts a draft that equals a sample of p, else draws from the residual: right for no sampled draft."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        p = law(ROOT)
        if pick(noise, p, tree.start, ACCEPT) == tree.tokens[0]:
            return Walk(path=(0,), token=pick(noise, law(0), tree.start + 1, RESIDUAL))
        return Walk(path=(), token=pick(noise, residual(p, tree.draft_law(0)), tree.start, RESIDUAL))


class NoResidual(RejectionRule):
    """Draws from p after a rejection."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        token, p = tree.tokens[0], law(ROOT)
        chance = min(1.0, p.probability(token) / tree.draft_law(0).probability(token))
        if noise.flip(chance, position=tree.start, stream=ACCEPT):
            return Walk(path=(0,), token=pick(noise, law(0), tree.start + 1, RESIDUAL))
        return Walk(path=(), token=pick(noise, p, tree.start, RESIDUAL))


class FirstUnchecked(RejectionRule):
    """Commits the first draft without a look."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        return Walk(path=(0,), token=pick(noise, law(0), tree.start + 1, RESIDUAL))


class TakesTheBest(RejectionRule):
    """Accepts a draft only if it is the target's favourite, and falls back on the favourite."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        best = int(law(ROOT).probabilities.argmax())
        if best == tree.tokens[0]:
            return Walk(path=(0,), token=pick(noise, law(0), tree.start + 1, RESIDUAL))
        return Walk(path=(), token=best)


class ForgetsRejections(RecursiveRule):
    """Tests every sibling against the whole p."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        p, left = law(ROOT), law(ROOT)
        for order, child in enumerate(tree.children(ROOT)):
            q, token = tree.draft_law(child), tree.tokens[child]
            if noise.flip(
                min(1.0, p.probability(token) / q.probability(token)), position=0, stream=lane(ACCEPT, order)
            ):
                return Walk(path=(child,), token=pick(noise, law(child), tree.start + 1, RESIDUAL))
            left = residual(left, q)
        return Walk(path=(), token=pick(noise, left, tree.start, RESIDUAL))


class ForgetsElders(RecursiveRule):
    """Tests a sibling drawn without replacement as if it had been drawn from the whole q."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        p = law(ROOT)
        for order, child in enumerate(tree.children(ROOT)):
            q, token = tree.draft_law(child), tree.tokens[child]
            if noise.flip(
                min(1.0, p.probability(token) / q.probability(token)), position=0, stream=lane(ACCEPT, order)
            ):
                return Walk(path=(child,), token=pick(noise, law(child), tree.start + 1, RESIDUAL))
            p = residual(p, q)
        return Walk(path=(), token=pick(noise, p, tree.start, RESIDUAL))


class BlockWithTokenwiseResidual(BlockRule):
    """Corrects with max(p - q, 0), as if the path so far had stood for certain."""

    def walk(self, tree: RowTree, law: Callable[[int], Law], noise: Noise) -> Walk:
        walk = super().walk(tree, law, noise)
        if len(walk.path) == tree.num_nodes:
            return walk
        last = walk.path[-1] if walk.path else ROOT
        p = residual(law(last), tree.draft_law(last + 1))
        return Walk(path=walk.path, token=pick(noise, p, 0, lane(RESIDUAL, 1)))


@pytest.mark.parametrize(
    ("rule", "drafting"),
    [
        (EqualsASample(), sampled_chain(1)),
        (NoResidual(), sampled_chain(1)),
        (FirstUnchecked(), sampled_chain(1)),
        (TakesTheBest(), sampled_chain(1)),
        (ForgetsRejections(), sampled_tree(2)),
        (ForgetsElders(), sampled_tree(2)),
        (ForgetsElders(), merged_tree(2)),
        (BlockWithTokenwiseResidual(), sampled_chain(2)),
    ],
    ids=lambda value: type(value).__name__ if not callable(value) else "",
)
def test_a_biased_rule_is_caught(rule: Rule, drafting: Drafting) -> None:
    assert distance_from_target(rule, P, Q, drafting, 3) > VISIBLE


def claims_softness(noise: Noise, q: LawOf, position: int) -> Draft:
    """Draft the most probable token but report the whole q."""
    draft = best_chain(1)(noise, q, position)
    draft.laws = [q(())]
    return draft


def reports_another_temperature(noise: Noise, q: LawOf, position: int) -> Draft:
    """Draw from a sharpened q but report q."""
    sharp = q(()).probabilities ** 2
    draft = Draft()
    draft.add(draw(noise, Law(ids=None, probabilities=sharp / sharp.sum()), position, 0), -1, sparse(q(())))
    return draft


def ranks_siblings_by_fate(noise: Noise, q: LawOf, position: int) -> Draft:
    """Draw two siblings and sort them by the target's liking: order must not depend on what was drawn."""
    draft = sampled_tree(2)(noise, q, position)
    draft.tokens.sort(key=lambda token: -P(()).probability(token))
    return draft


@pytest.mark.parametrize("rule", [RejectionRule(), BlockRule(), RecursiveRule()], ids=lambda rule: rule.name)
@pytest.mark.parametrize("drafting", [claims_softness, reports_another_temperature])
def test_a_drafter_that_reports_a_false_law_is_caught_under_sampling_rules(rule: Rule, drafting: Drafting) -> None:
    assert distance_from_target(rule, P, Q, drafting, 2) > VISIBLE


def test_siblings_sorted_by_the_target_are_caught() -> None:
    assert distance_from_target(RecursiveRule(), P, Q, ranks_siblings_by_fate, 2) > VISIBLE


def shares_noise_with_the_rule(noise: Noise, q: LawOf, position: int) -> Draft:
    law = q(())
    draft = Draft()
    draft.add(law.token(noise.choose(law.probabilities, None, position=position, stream=RESIDUAL)), -1, law)
    return draft


def test_a_drafter_that_draws_from_the_rules_own_stream_is_caught() -> None:
    with pytest.raises(AssertionError, match="drawn twice"):
        distance_from_target(RejectionRule(), P, Q, shares_noise_with_the_rule, 2)
