"""The output law of a rule with a drafter, by enumeration of every draw of both."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.arrays import DoubleArray
from paradraft.verify.rules import Rule
from paradraft.verify.tree import RowTree
from support.draft_sampling import Drafting, LawOf
from support.enumeration import ForkingNoise, Key, OutputLaw, Tokens, continued, outcomes, total_variation
from support.steps import Draft, proposal_of

START = 10


def emitted_law(rule: Rule, p: LawOf, q: LawOf, drafting: Drafting) -> OutputLaw:
    """Return the law of the tokens that one step emits."""
    law: OutputLaw = {}
    for chance, (draft, drawn) in outcomes(lambda noise: _drafted(drafting, noise, q)):
        for share, tokens in outcomes(_step(rule, p, draft), drawn):
            law[tokens] = law.get(tokens, 0.0) + chance * share
    return law


def _drafted(drafting: Drafting, noise: ForkingNoise, q: LawOf) -> tuple[Draft, frozenset[Key]]:
    return drafting(noise, q, START), frozenset(noise.keys)


def _step(rule: Rule, p: LawOf, draft: Draft) -> Callable[[ForkingNoise], Tokens]:
    tree = RowTree(proposal_of([draft]), 0, START)

    def step(noise: ForkingNoise) -> Tokens:
        walk = rule.walk(tree, lambda node: p(draft.path(node)), noise)
        return (*(draft.tokens[node] for node in walk.path), walk.token)

    return step


def distance_from_target(rule: Rule, p: LawOf, q: LawOf, drafting: Drafting, length: int) -> float:
    """Return the total variation between the first `length` tokens of speculation and of plain decoding."""

    def target(tokens: Tokens) -> DoubleArray:
        return p(tokens).probabilities

    joint = continued(emitted_law(rule, p, q, drafting), target, length)
    return total_variation(joint, continued({(): 1.0}, target, length))


def mean_emitted(rule: Rule, p: LawOf, q: LawOf, drafting: Drafting) -> float:
    """Return the expected number of tokens of a step."""
    return sum(len(tokens) * chance for tokens, chance in emitted_law(rule, p, q, drafting).items())
