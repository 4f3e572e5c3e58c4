"""The same enumeration through what serves requests: fp32 logits, processors, RuleAcceptor, whole batches."""

from __future__ import annotations

import pytest

from paradraft.core.arrays import DoubleArray
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule
from support.draft_sampling import Drafting, best_chain, best_tree, law_by_prefix, sampled_chain, sampled_tree
from support.enumeration import ForkingNoise, OutputLaw, Tokens, continued, outcomes, total_variation
from support.reference_law import reference_law
from support.steps import Draft, decide, sampling_of
from support.stub_target import hashed_law

BOUND = 1e-6
VOCAB = 4
PROMPT = (1, 3, 3)
LOGITS = hashed_law(VOCAB, spread=1.5)
Q = law_by_prefix("random", VOCAB, 5)
SETTINGS = {
    "plain": SamplingParams(),
    "temperature": SamplingParams(temperature=0.7),
    "top_p": SamplingParams(temperature=1.3, top_p=0.8),
    "top_k": SamplingParams(top_k=2),
    "min_p": SamplingParams(min_p=0.3),
    "all cuts": SamplingParams(temperature=0.9, top_k=3, top_p=0.9, min_p=0.05),
    "penalties": SamplingParams(repetition_penalty=1.4, frequency_penalty=0.7, presence_penalty=-0.4),
    "bias": SamplingParams(logit_bias={0: -100.0, 2: 1.5}),
    "min_tokens": SamplingParams(min_tokens=2),
    "greedy": SamplingParams(temperature=0.0),
    "greedy with penalties": SamplingParams(temperature=0.0, repetition_penalty=1.8, frequency_penalty=1.0),
}
CASES = [
    *((rule, sampled_chain(2)) for rule in ("coupled", "rejection", "block", "recursive")),
    *((rule, best_chain(3)) for rule in ("coupled", "rejection", "block")),
    *((rule, drafting) for rule in ("coupled", "recursive") for drafting in (sampled_tree(2, 1), best_tree(2, 2))),
]


def emitted(rule: str, drafting: Drafting, sampling: RowSampling) -> OutputLaw:
    def step(noise: ForkingNoise) -> Tokens:
        draft = drafting(noise, Q, len(PROMPT))
        acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise)
        return tuple(decide(acceptor, [PROMPT], [sampling], [draft], LOGITS).tokens_of(0).tolist())

    law: OutputLaw = {}
    for chance, tokens in outcomes(step):
        law[tokens] = law.get(tokens, 0.0) + chance
    return law


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_rule_and_sampling_parameter_keeps_the_law(setting: str) -> None:
    sampling = sampling_of(SETTINGS[setting], prompt_len=len(PROMPT), stop_ids=(1,))

    def target(tokens: Tokens) -> DoubleArray:
        return reference_law(LOGITS((*PROMPT, *tokens)), sampling, [*PROMPT, *tokens])

    plain = continued({(): 1.0}, target, 3)
    for rule, drafting in CASES:
        distance = total_variation(continued(emitted(rule, drafting, sampling), target, 3), plain)
        assert distance < BOUND, f"{rule}, {drafting.__qualname__}"


def test_rows_of_one_batch_are_independent() -> None:
    """A neighbour with other parameters, drafts and no drafts at all must not leak into a row's law."""
    params = [SamplingParams(temperature=0.8), SamplingParams(min_p=0.3), SamplingParams(temperature=0.0)]
    sampling = [sampling_of(each, prompt_len=len(PROMPT)) for each in params]
    prompts = [PROMPT, (2, 0), (0, 1, 2, 3)]
    law: OutputLaw = {}

    def step(noise: ForkingNoise) -> tuple[Tokens, ...]:
        noises = iter((noise, ForkingNoise([]), ForkingNoise([])))
        drafts = [sampled_chain(2)(noise, Q, len(PROMPT)), best_chain(2)(noise, Q, 2), Draft()]
        acceptor = RuleAcceptor(make_rule("rejection"), noise=lambda seed, choice: next(noises))
        verdict = decide(acceptor, prompts, sampling, drafts, LOGITS)
        return tuple(tuple(verdict.tokens_of(row).tolist()) for row in range(3))

    for chance, (first, _, last) in outcomes(step):
        law[first] = law.get(first, 0.0) + chance
        assert last == (int(LOGITS(prompts[2]).argmax()),)

    def target(tokens: Tokens) -> DoubleArray:
        return reference_law(LOGITS((*PROMPT, *tokens)), sampling[0], [*PROMPT, *tokens])

    assert total_variation(continued(law, target, 3), continued({(): 1.0}, target, 3)) < BOUND
