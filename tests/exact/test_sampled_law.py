"""A second net behind enumeration: texts of several steps, drawn in batches with the real noise, have the target's law.

Chi-square over all texts of three tokens, with the error rate of support.chi_square and fixed seeds.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.rules import make_rule
from support.chi_square import fits
from support.draft_sampling import Drafting, law_by_prefix, sampled_chain, sampled_tree
from support.enumeration import Tokens
from support.reference_law import reference_law
from support.steps import decide, sampling_of
from support.stub_target import hashed_law

VOCAB, LENGTH, NUM_ROWS, NUM_BATCHES = 3, 3, 8, 250
PROMPT = (2, 0)
LOGITS = cache(hashed_law(VOCAB, spread=1.0))
Q = law_by_prefix("random", VOCAB, 3)
PARAMS = SamplingParams(temperature=0.8)


def texts(rule: str, drafting: Drafting) -> list[Tokens]:
    """Return the first tokens of NUM_ROWS * NUM_BATCHES requests that differ in seed and choice."""
    acceptor, found = RuleAcceptor(make_rule(rule)), []
    for seed in range(NUM_BATCHES):
        sampling = [sampling_of(PARAMS, prompt_len=2, seed=seed, choice=choice) for choice in range(NUM_ROWS)]
        known = [list(PROMPT) for _ in range(NUM_ROWS)]
        while any(len(row) < len(PROMPT) + LENGTH for row in known):
            drafts = [drafting(GumbelNoise(seed, at), Q, len(row)) for at, row in enumerate(known)]
            verdict = decide(acceptor, known, sampling, drafts, LOGITS)
            known = [[*row, *verdict.tokens_of(at).tolist()] for at, row in enumerate(known)]
        found += [tuple(row[2 : 2 + LENGTH]) for row in known]
    return found


def probability(text: Tokens) -> float:
    sampling = sampling_of(PARAMS, prompt_len=2)
    prefixes = [(*PROMPT, *text[:length]) for length in range(LENGTH)]
    laws = [reference_law(LOGITS(prefix), sampling, list(prefix)) for prefix in prefixes]
    return float(np.prod([law[token] for law, token in zip(laws, text, strict=True)]))


@pytest.mark.parametrize(
    ("rule", "drafting"),
    [
        ("coupled", sampled_chain(2)),
        ("rejection", sampled_chain(2)),
        ("block", sampled_chain(2)),
        ("recursive", sampled_tree(2, 1)),
    ],
)
def test_texts_of_several_steps_have_the_targets_law(rule: str, drafting: Drafting) -> None:
    cells = list(itertools.product(range(VOCAB), repeat=LENGTH))
    found = texts(rule, drafting)
    assert fits([found.count(cell) for cell in cells], [probability(cell) for cell in cells])


@pytest.mark.parametrize("rule", ["ratio", "typical"])
def test_the_net_catches_lossy_rules(rule: str) -> None:
    cells = list(itertools.product(range(VOCAB), repeat=LENGTH))
    found = texts(rule, sampled_chain(2))
    assert not fits([found.count(cell) for cell in cells], [probability(cell) for cell in cells])
