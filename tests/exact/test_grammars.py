"""A grammar changes the target's law and nothing else: with any drafts the tokens and laws are plain decoding's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray
from paradraft.core.grammar import Grammar
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule
from support.draft_sampling import Drafting, best_chain, best_tree, law_by_prefix, sampled_chain, sampled_tree
from support.enumeration import ForkingNoise, OutputLaw, Tokens, continued, outcomes, total_variation
from support.grammars import FunctionGrammars
from support.reference_law import reference_law
from support.steps import Draft, decide, decode, sampling_of
from support.stub_target import hashed_law

BOUND = 1e-6
VOCAB, WIDE = 4, 40
PROMPT = (1, 3, 3)
GRAMMAR = Grammar.regex("told by a function")
LOGITS = hashed_law(VOCAB, spread=1.5)
WIDE_LOGITS = cache(hashed_law(WIDE, spread=2.0))
Q = law_by_prefix("random", VOCAB, 5)
CASES = [
    *((rule, sampled_chain(2)) for rule in ("coupled", "rejection", "block", "recursive")),
    *((rule, best_chain(3)) for rule in ("coupled", "rejection", "block")),
    *((rule, drafting) for rule in ("coupled", "recursive") for drafting in (sampled_tree(2, 1), best_tree(2, 2))),
]
SETTINGS = {
    "plain": SamplingParams(temperature=1.0, grammar=GRAMMAR),
    "cuts": SamplingParams(temperature=0.9, top_k=2, top_p=0.9, min_p=0.05, grammar=GRAMMAR),
    "penalties": SamplingParams(repetition_penalty=1.4, frequency_penalty=0.7, min_tokens=2, grammar=GRAMMAR),
    "greedy": SamplingParams(temperature=0.0, grammar=GRAMMAR),
}


def follow(output: Tokens) -> list[int]:
    """Forbid the token that a sum of the earlier ones says, and after a 2 everything but 1 and 3."""
    options = [1, 3] if output and output[-1] == 2 else [0, 1, 2, 3]
    return [token for token in options if token != sum(output) % 4 or len(options) == 2]


def follow_few(output: Tokens) -> list[int]:
    """Allow a few ids that depend on all of the output; after five tokens the end (7) too, and only it after nine."""
    if len(output) >= 9 or 7 in output:
        return [7]
    few = {(11 * sum(output) + 5 * at + len(output)) % WIDE for at in range(6)} - {7}
    return sorted(few | ({7} if len(output) >= 5 else set()))


def masked(logits: np.ndarray, output: Tokens) -> np.ndarray:
    values = np.full_like(logits, -np.inf)
    allowed = follow(output)
    values[allowed] = logits[allowed]
    return values


def emitted(rule: str, drafting: Drafting, sampling: RowSampling) -> OutputLaw:
    def step(noise: ForkingNoise) -> Tokens:
        draft = drafting(noise, Q, len(PROMPT))
        grammars = FunctionGrammars(follow, VOCAB)
        acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise, grammars=grammars)
        return tuple(decide(acceptor, [PROMPT], [sampling], [draft], LOGITS).tokens_of(0).tolist())

    law: OutputLaw = {}
    for chance, tokens in outcomes(step):
        law[tokens] = law.get(tokens, 0.0) + chance
    return law


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_rule_keeps_the_law_of_the_masked_target(setting: str) -> None:
    sampling = sampling_of(SETTINGS[setting], prompt_len=len(PROMPT), stop_ids=(1,))

    def target(tokens: Tokens) -> DoubleArray:
        return reference_law(masked(LOGITS((*PROMPT, *tokens)), tokens), sampling, [*PROMPT, *tokens])

    plain = continued({(): 1.0}, target, 3)
    assert sum(chance for tokens, chance in plain.items() if tokens[0] == 0) == 0.0
    for rule, drafting in CASES:
        distance = total_variation(continued(emitted(rule, drafting, sampling), target, 3), plain)
        assert distance < BOUND, f"{rule}, {drafting.__qualname__}"


def tree_of(rng: np.random.Generator, known: Tokens, num_nodes: int = 9) -> Draft:
    """A tree of any shape: of what the grammar allows, of what the target likes, and of noise."""
    draft = Draft()
    for _ in range(num_nodes):
        parent = int(rng.integers(-1, len(draft.tokens)))
        path = draft.path(parent)
        pool = [follow_few((*known[len(PROMPT) :], *path)), np.argsort(-WIDE_LOGITS((*known, *path)))[:3], range(WIDE)]
        token = int(rng.choice(list(pool[int(rng.integers(3))])))
        if not draft.has_child(parent, token):
            draft.add(token, parent)
    return draft


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0, grammar=GRAMMAR),
        SamplingParams(temperature=1.0, grammar=GRAMMAR),
        SamplingParams(temperature=0.7, top_p=0.8, min_p=0.02, grammar=GRAMMAR),
        SamplingParams(temperature=1.0, top_k=3, repetition_penalty=1.3, logit_bias={7: -5.0, 3: 4.0}, grammar=GRAMMAR),
        SamplingParams(temperature=1.0, min_tokens=7, grammar=GRAMMAR),
    ],
    ids=str,
)
def test_any_tree_gives_the_tokens_of_plain_decoding(params: SamplingParams) -> None:
    num_drafted = 0
    for seed in range(30):
        sampling = sampling_of(params, prompt_len=len(PROMPT), seed=seed, stop_ids=(7,))
        acceptor = RuleAcceptor(make_rule("coupled"), grammars=FunctionGrammars(follow_few, WIDE))
        plain = decode(acceptor, PROMPT, sampling, WIDE_LOGITS, 12)
        assert all(token in follow_few(tuple(plain[:at])) for at, token in enumerate(plain))
        assert plain.index(7) >= min(params.min_tokens, 9)
        rng = np.random.default_rng(seed)
        drafted = decode(acceptor, PROMPT, sampling, WIDE_LOGITS, 12, lambda known, rng=rng: tree_of(rng, known))
        assert drafted == plain, f"seed {seed}"
        first = decide(acceptor, [PROMPT], [sampling], [tree_of(rng, PROMPT)], WIDE_LOGITS)
        num_drafted += len(first.path)
    assert num_drafted > 5, "the trees were never right, so the test shows nothing"


def test_masks_are_asked_only_where_the_walk_goes() -> None:
    grammars = FunctionGrammars(lambda _: [5], WIDE)
    acceptor = RuleAcceptor(make_rule("coupled"), grammars=grammars)
    sampling = sampling_of(SamplingParams(temperature=1.0, grammar=GRAMMAR), prompt_len=len(PROMPT))
    draft = Draft(tokens=[5, 9, 5, 8, 9], parents=[-1, -1, 0, 0, 1], laws=[None] * 5)
    verdict = decide(acceptor, [PROMPT], [sampling], [draft], WIDE_LOGITS)
    assert verdict.tokens_of(0).tolist() == [5, 5, 5]
    assert grammars.asked == [(), (5,), (5, 5)]
