"""The lossy rules are labelled, are not exact, and do what their definitions say; greedy text stays the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray, ints
from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.law import Law
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.ratio import RatioRule
from paradraft.verify.rules import RULE_NAMES, make_rule
from paradraft.verify.tree import RowTree
from paradraft.verify.typical import TypicalRule, threshold
from support.draft_sampling import best_chain, law_by_prefix, sampled_chain
from support.exactness import distance_from_target, emitted_law
from support.steps import Draft, decode, proposal_of, sampling_of
from support.stub_target import hashed_law

P, Q = law_by_prefix("random", 4, 1), law_by_prefix("random", 4, 2)
NOISE = GumbelNoise(1, 0)


def test_exactly_the_lossy_rules_are_labelled_so() -> None:
    labelled = {name for name in RULE_NAMES if not make_rule(name).is_exact}
    assert labelled == {"ratio", "typical"}
    assert {name for name in RULE_NAMES if not RuleAcceptor(make_rule(name)).is_exact} == labelled


@pytest.mark.parametrize("name", ["ratio", "typical"])
def test_lossy_rules_leave_the_targets_law(name: str) -> None:
    assert distance_from_target(make_rule(name), P, Q, sampled_chain(1), 2) > 1e-2


def test_ratio_with_alpha_one_is_lossy_too() -> None:
    assert distance_from_target(make_rule("ratio", alpha=1.0), P, Q, sampled_chain(1), 2) > 1e-2


def law(*probabilities: float) -> Law:
    return Law(ids=None, probabilities=np.array(probabilities))


def walk_one(rule: RatioRule | TypicalRule, p: Law, token: int, q: Law | None) -> bool:
    """Whether a single draft stands."""
    draft = Draft()
    draft.add(token, -1, q)
    return bool(rule.walk(RowTree(proposal_of([draft]), 0, 5), lambda node: p, NOISE).path)


@pytest.mark.parametrize(
    ("alpha", "p", "q", "stands"),
    [(0.5, 0.3, 0.6, True), (0.51, 0.3, 0.6, False), (1.0, 0.6, 0.6, True), (1.0, 0.59, 0.6, False)],
)
def test_ratio_accepts_from_alpha_on(alpha: float, p: float, q: float, stands: bool) -> None:
    assert walk_one(RatioRule(alpha=alpha), law(p, 1 - p), 0, law(q, 1 - q)) is stands


def test_ratio_takes_a_draft_without_a_law_as_certain() -> None:
    assert walk_one(RatioRule(alpha=0.6), law(0.6, 0.4), 0, None)
    assert not walk_one(RatioRule(alpha=0.6), law(0.59, 0.41), 0, None)


def test_ratio_draws_the_next_token_from_the_target() -> None:
    emitted = emitted_law(RatioRule(alpha=1.0), P, law_by_prefix("uniform", 4, 0), best_chain(1))
    assert emitted == pytest.approx({(token,): P(()).probability(token) for token in range(4)})


@pytest.mark.parametrize("alpha", [0.0, -1.0, 1.01, math.nan])
def test_alpha_out_of_range_is_refused(alpha: float) -> None:
    with pytest.raises(ConfigError, match="alpha"):
        make_rule("ratio", alpha=alpha)


def medusa_threshold(probabilities: DoubleArray) -> float:
    entropy = -sum(p * math.log(p) for p in probabilities.tolist() if p)
    return min(0.3, 0.09 * math.exp(-entropy))


@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.97, 0.03), (0.25, 0.25, 0.25, 0.25), (1.0, 0.0)])
def test_typical_accepts_above_its_threshold(probabilities: tuple[float, ...]) -> None:
    p = law(*probabilities)
    assert threshold(p) == pytest.approx(medusa_threshold(p.probabilities))
    for token, probability in enumerate(probabilities):
        assert walk_one(TypicalRule(), p, token, None) is (probability > threshold(p))


def test_typical_takes_the_longest_plausible_path() -> None:
    draft = Draft()
    short = draft.add(0, -1)
    long = draft.add(1, -1)
    below = draft.add(0, long)
    tree = RowTree(proposal_of([draft]), 0, 5)
    assert TypicalRule().walk(tree, lambda node: law(0.5, 0.5), NOISE).path == (long, below)
    laws = {-1: law(0.5, 0.5), long: law(0.001, 0.999), short: law(0.5, 0.5)}
    assert TypicalRule().walk(tree, lambda node: laws[node], NOISE).path == (short,)


@pytest.mark.parametrize("name", ["ratio", "typical"])
def test_at_temperature_zero_lossy_rules_give_the_greedy_text(name: str) -> None:
    logits = hashed_law(12)
    sampling = sampling_of(SamplingParams(temperature=0.0, repetition_penalty=1.2), prompt_len=2)
    plain = decode(RuleAcceptor(make_rule("coupled")), [1, 2], sampling, logits, 20)
    rng = np.random.default_rng(0)

    def drafter(known: tuple[int, ...]) -> Draft:
        q = Law(ids=ints(range(12)), probabilities=np.full(12, 1 / 12))
        draft, node = Draft(), -1
        for _ in range(3):
            best = int(logits((*known, *draft.path(node))).argmax())
            node = draft.add(best if rng.random() < 0.7 else int(rng.integers(12)), node, q)
        return draft

    assert decode(RuleAcceptor(make_rule(name)), [1, 2], sampling, logits, 20, drafter) == plain
