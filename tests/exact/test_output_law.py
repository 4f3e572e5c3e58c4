"""The law of what each exact rule emits is the target's, by enumeration in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paradraft.verify.law import Law
from paradraft.verify.rules import make_rule
from support.draft_sampling import (
    Drafting,
    best_chain,
    best_tree,
    law_by_prefix,
    merged_tree,
    mixed_tree,
    sampled_chain,
    sampled_tree,
)
from support.enumeration import Tokens
from support.exactness import distance_from_target, mean_emitted

BOUND = 1e-9
CHAIN_RULES = ("coupled", "rejection", "block", "recursive")
TREE_RULES = ("coupled", "recursive")
PAIRS = (
    ("random", "random"),
    ("random", "peaked"),
    ("peaked", "random"),
    ("random", "one_hot"),
    ("one_hot", "random"),
    ("one_hot", "one_hot"),
    ("random", "truncated"),
    ("truncated", "truncated"),
    ("low_half", "high_half"),
    ("low_half", "uniform"),
    ("uniform", "uniform"),
)
TREES: dict[str, Drafting] = {
    "sampled 2x2": sampled_tree(2, 2),
    "sampled 3": sampled_tree(3),
    "sampled 2x1x1": sampled_tree(2, 1, 1),
    "merged 2x2": merged_tree(2, 2),
    "merged 3": merged_tree(3),
    "deterministic 2x2x2": best_tree(2, 2, 2),
    "deterministic 3": best_tree(3),
    "mixed": mixed_tree(law_by_prefix("peaked", 3, 99)),
}


@pytest.mark.parametrize(("target", "drafter"), PAIRS)
@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_sampled_chains_keep_the_law(rule: str, target: str, drafter: str) -> None:
    for vocab_size, depth in ((3, 3), (4, 2), (5, 1)):
        p, q = law_by_prefix(target, vocab_size, 1), law_by_prefix(drafter, vocab_size, 2)
        distance = distance_from_target(make_rule(rule), p, q, sampled_chain(depth), depth + 1)
        assert distance < BOUND, f"vocabulary {vocab_size}, depth {depth}"


@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_the_largest_chain_keeps_the_law(rule: str) -> None:
    p, q = law_by_prefix("random", 5, 1), law_by_prefix("peaked", 5, 2)
    assert distance_from_target(make_rule(rule), p, q, sampled_chain(3), 4) < BOUND


@pytest.mark.parametrize(("target", "drafter"), PAIRS)
@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_deterministic_chains_keep_the_law(rule: str, target: str, drafter: str) -> None:
    for vocab_size, depth in ((3, 3), (5, 3)):
        p, q = law_by_prefix(target, vocab_size, 3), law_by_prefix(drafter, vocab_size, 4)
        distance = distance_from_target(make_rule(rule), p, q, best_chain(depth), depth + 1)
        assert distance < BOUND, f"vocabulary {vocab_size}, depth {depth}"


@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_a_drafter_equal_to_the_target_keeps_the_law_and_is_always_accepted(rule: str) -> None:
    p = law_by_prefix("random", 4, 5)
    assert distance_from_target(make_rule(rule), p, p, sampled_chain(3), 4) < BOUND
    if rule != "coupled":
        assert mean_emitted(make_rule(rule), p, p, sampled_chain(3)) == pytest.approx(4.0, abs=1e-12)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("rule", TREE_RULES)
def test_trees_keep_the_law(rule: str, tree: str) -> None:
    for target, drafter in PAIRS:
        p, q = law_by_prefix(target, 3, 6), law_by_prefix(drafter, 3, 7)
        assert distance_from_target(make_rule(rule), p, q, TREES[tree], 4) < BOUND, f"{target}, {drafter}"


@pytest.mark.parametrize("rule", TREE_RULES)
def test_wide_trees_keep_the_law(rule: str) -> None:
    p, q = law_by_prefix("peaked", 5, 8), law_by_prefix("random", 5, 9)
    for drafting in (sampled_tree(3), merged_tree(3), best_tree(3, 2), sampled_tree(4)):
        assert distance_from_target(make_rule(rule), p, q, drafting, 3) < BOUND


@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_no_draft_is_plain_decoding(rule: str) -> None:
    p = law_by_prefix("random", 4, 1)
    assert distance_from_target(make_rule(rule), p, p, best_chain(0), 1) < BOUND
    assert mean_emitted(make_rule(rule), p, p, best_chain(0)) == pytest.approx(1.0)


def test_block_verification_never_accepts_less_than_rejection() -> None:
    for target, drafter in PAIRS:
        p, q = law_by_prefix(target, 4, 1), law_by_prefix(drafter, 4, 2)
        tokens, tokens_by_block = (
            mean_emitted(make_rule(rule), p, q, sampled_chain(2)) for rule in ("rejection", "block")
        )
        assert tokens_by_block >= tokens - 1e-12
    p, q = law_by_prefix("random", 4, 1), law_by_prefix("random", 4, 2)
    gains = [mean_emitted(make_rule(rule), p, q, sampled_chain(3)) for rule in ("rejection", "block")]
    assert gains[1] > gains[0] + 0.01


def test_the_example_of_the_block_verification_paper() -> None:
    """Two drafts over two tokens, target (1/3, 2/3), drafter (2/3, 1/3): 10/9 accepted one by one, 11/9 jointly."""

    def p(prefix: Tokens) -> Law:
        return Law(ids=None, probabilities=np.array([1 / 3, 2 / 3]))

    def q(prefix: Tokens) -> Law:
        return Law(ids=None, probabilities=np.array([2 / 3, 1 / 3]))

    for rule, accepted in (("rejection", 10 / 9), ("block", 11 / 9)):
        assert mean_emitted(make_rule(rule), p, q, sampled_chain(2)) == pytest.approx(1 + accepted, abs=1e-12)


def test_on_chains_recursive_and_chain_rejection_are_the_same_rule() -> None:
    for (target, drafter), drafting in itertools.product(PAIRS[:4], (sampled_chain(2), best_chain(2))):
        p, q = law_by_prefix(target, 4, 1), law_by_prefix(drafter, 4, 2)
        lengths = [mean_emitted(make_rule(rule), p, q, drafting) for rule in ("rejection", "recursive")]
        assert lengths[0] == pytest.approx(lengths[1], abs=1e-12)


def test_acceptance_of_one_draft_is_the_overlap_of_the_laws() -> None:
    p, q = law_by_prefix("random", 5, 1), law_by_prefix("random", 5, 2)
    overlap = float(sum(min(a, b) for a, b in zip(p(()).probabilities, q(()).probabilities, strict=True)))
    assert mean_emitted(make_rule("rejection"), p, q, sampled_chain(1)) == pytest.approx(1 + overlap, abs=1e-12)
