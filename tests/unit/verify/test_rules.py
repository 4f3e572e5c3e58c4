"""Rules on single trees: what they accept, what they look at, what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError, ProtocolError
from paradraft.verify.law import Law
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.residual import residual, residual_mass, without
from paradraft.verify.rules import RULE_NAMES, make_rule
from paradraft.verify.tree import RowTree, Shape, Walk
from support.steps import Draft, chain, proposal_of

ALL_RULES = [name for name in RULE_NAMES if name != "greedy"]
SAMPLING_RULES = ["rejection", "block", "recursive"]


def point(token: int, vocab_size: int = 8) -> Law:
    return Law(ids=None, probabilities=np.eye(vocab_size)[token])


def walk(rule: str, draft: Draft, law: Callable[[int], Law], seed: int = 0) -> Walk:
    return make_rule(rule).walk(RowTree(proposal_of([draft]), 0, 10), law, GumbelNoise(seed, 0))


def forbidden(node: int) -> Law:
    raise AssertionError(f"the law after node {node} was asked for")


def test_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"rule='fast'.*coupled, greedy"):
        make_rule("fast")


def test_rules_say_what_they_are() -> None:
    rules = {name: make_rule(name) for name in RULE_NAMES}
    assert all(rule.name == name for name, rule in rules.items())
    assert {name for name, rule in rules.items() if rule.shape is Shape.CHAIN} == {"rejection", "block"}
    assert {name for name, rule in rules.items() if rule.reads_draft_laws} == {*SAMPLING_RULES, "ratio"}
    assert {name for name, rule in rules.items() if rule.is_greedy_only} == {"greedy"}


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_draft_is_checked_the_first_and_the_last_included(rule: str, length: int) -> None:
    """A wrong token at any place ends the path there, even in a draft of one token."""
    for wrong in range(length):
        tokens = [2] * length
        tokens[wrong] = 1
        found = walk(rule, chain(*tokens), lambda node: point(2))
        assert found == Walk(path=tuple(range(wrong)), token=2)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_right_drafts_are_all_accepted_and_a_token_follows(rule: str) -> None:
    assert walk(rule, chain(3, 3, 3), lambda node: point(3)) == Walk(path=(0, 1, 2), token=3)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_laws_are_asked_for_only_where_the_walk_goes(rule: str) -> None:
    draft = chain(1, 1)
    laws = {-1: point(2)}
    assert walk(rule, draft, lambda node: laws[node] if node in laws else forbidden(node)).token == 2


@pytest.mark.parametrize("rule", [name for name in ALL_RULES if make_rule(name).shape is Shape.TREE])
def test_the_branch_that_the_target_takes_is_followed(rule: str) -> None:
    draft = Draft()
    draft.add(1, -1)
    right = draft.add(2, -1)
    draft.add(4, right)
    below = draft.add(5, right)
    wanted = {-1: point(2), right: point(5), below: point(7)}
    assert walk(rule, draft, lambda node: wanted[node] if node in wanted else forbidden(node)) == Walk(
        path=(right, below), token=7
    )


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_chain_rules_refuse_a_branching_tree(rule: str) -> None:
    draft = Draft()
    draft.add(1, -1)
    draft.add(2, -1)
    with pytest.raises(ProtocolError, match="branches"):
        walk(rule, draft, lambda node: point(1))


def test_the_greedy_rule_refuses_to_sample() -> None:
    best = Law.point(3)
    assert walk("greedy", chain(3, 1), lambda node: best) == Walk(path=(0,), token=3)
    with pytest.raises(ProtocolError, match="cannot sample"):
        walk("greedy", chain(3), lambda node: Law(ids=None, probabilities=np.array([0.1, 0.9])))


def test_an_argmax_draft_is_accepted_as_often_as_the_target_draws_it() -> None:
    """Taking the drafter's soft law for a token that it chose greedily would give id 0 too often."""
    p = Law(ids=None, probabilities=np.array([0.3, 0.5, 0.2]))
    for rule in ("coupled", "rejection", "block", "recursive"):
        draws = [walk(rule, chain(0), lambda node: p, seed=seed) for seed in range(4000)]
        share = sum(bool(found.path) or found.token == 0 for found in draws) / 4000
        assert share == pytest.approx(0.3, abs=0.03), rule


@pytest.mark.parametrize("rule", SAMPLING_RULES)
def test_a_node_that_its_law_cannot_give_is_left_unread(rule: str) -> None:
    """Its fall must not tilt the law of what follows."""
    lie = Law(ids=ints([1]), probabilities=np.ones(1))
    p = Law(ids=None, probabilities=np.array([0.6, 0.4]))
    draft = Draft()
    draft.add(0, -1, lie)
    draws = [walk(rule, draft, lambda node: p, seed=seed) for seed in range(3000)]
    assert all(found.path == () for found in draws)
    assert sum(found.token for found in draws) / 3000 == pytest.approx(0.4, abs=0.04)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_a_draft_beyond_the_vocabulary_never_stands(rule: str) -> None:
    p = Law(ids=None, probabilities=np.array([0.6, 0.4]))
    for seed in range(50):
        assert walk(rule, chain(2), lambda node: p, seed=seed).path == ()


SUPPORTS = [None, ints(range(6))]


@pytest.mark.parametrize("p_ids", SUPPORTS)
@pytest.mark.parametrize("q_ids", SUPPORTS)
def test_residual_is_the_positive_part_of_the_difference(p_ids: np.ndarray | None, q_ids: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    rest = np.maximum(0.8 * p - q, 0)
    left, right = Law(ids=p_ids, probabilities=p), Law(ids=q_ids, probabilities=q)
    np.testing.assert_allclose(residual(left, right, 0.8).probabilities, rest / rest.sum(), atol=1e-15)
    assert residual_mass(left, right, 0.8) == pytest.approx(rest.sum())


def test_residual_of_different_supports_subtracts_what_is_shared() -> None:
    p = Law(ids=ints([1, 4, 9]), probabilities=np.array([0.5, 0.25, 0.25]))
    q = Law(ids=ints([0, 4, 5, 12]), probabilities=np.array([0.25, 0.5, 0.125, 0.125]))
    np.testing.assert_allclose(residual(p, q).probabilities, [2 / 3, 0, 1 / 3])
    whole = Law(ids=None, probabilities=np.full(13, 1 / 13))
    assert residual(whole, q).probabilities[[0, 4, 5, 12]].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(residual(p, whole).probabilities.sum(), 1.0)


def test_residual_of_equal_laws_is_the_law_itself() -> None:
    p = Law(ids=None, probabilities=np.array([0.25, 0.75]))
    assert residual(p, p) is p


def test_without_rules_tokens_out() -> None:
    law = Law(ids=ints([3, 5, 6]), probabilities=np.array([0.5, 0.25, 0.25]))
    assert without(law, [3, 4]).probabilities.tolist() == [0, 0.5, 0.5]
    assert without(law, []) is law
    assert without(law, [3, 5, 6]).probabilities.tolist() == [0, 0, 0]
