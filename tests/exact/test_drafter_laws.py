"""Every outcome of a step with a real drafter and a real rule, enumerated: the output has the target's law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray
from paradraft.core.ports import Drafter
from paradraft.core.records import Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftHeat
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.kv.pages import PageCache
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.law import law_of
from paradraft.verify.rules import make_rule
from support.drafting import RowText, batch_for, plan_for, propose
from support.enumeration import ForkingNoise, continued, outcomes, total_variation
from support.steps import Draft, scores_of
from support.stub_target import StubTarget, hashed_law

VOCAB = 4
KNOWN = [2, 1, 3, 2, 1, 0, 2, 1]
TARGET = hashed_law(VOCAB, spread=1.0)
WARM = SamplingParams(temperature=1.0)
CUT = SamplingParams(temperature=0.7, top_k=3, top_p=0.9)
DEPTH = 2


def sampling_drafter(noise: ForkingNoise, options: ModelDrafterOptions, spread: float = 1.0) -> ModelDrafter:
    return ModelDrafter(
        target=StubTarget(hashed_law(VOCAB, spread=spread, salt=4), vocab_size=VOCAB),
        pages=PageCache(num_pages=64, page_size=4),
        vocab_size=VOCAB,
        options=options,
        noise=lambda seed, choice: noise,
    )


def row(params: SamplingParams) -> RowText:
    return RowText(tokens=KNOWN, params=params)


def target_law(params: SamplingParams, tokens: tuple[int, ...]) -> DoubleArray:
    history = np.array([*KNOWN, *tokens], dtype=np.int32)
    law = law_of(TARGET(tuple(history.tolist())), batch_for(row(params)).sampling[0], history)
    vector = np.zeros(VOCAB)
    vector[slice(None) if law.ids is None else law.ids] = law.probabilities
    return vector


def as_draft(proposal: Proposal) -> Draft:
    return Draft(tokens=proposal.tokens.tolist(), parents=proposal.parents.tolist())


def distance(build: Callable[[ForkingNoise], Drafter], rule: str, params: SamplingParams, nodes: int) -> float:
    """Return the total variation between a step's output, carried on by the target, and the target's law."""

    def emit(noise: ForkingNoise) -> tuple[int, ...]:
        batch = batch_for(row(params))
        proposal = build(noise).propose(batch, plan_for(batch, nodes, DEPTH))
        scores = scores_of(batch, [as_draft(proposal)], TARGET)
        acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise)
        return tuple(acceptor.accept(batch, proposal, scores).tokens_of(0).tolist())

    emitted: dict[tuple[int, ...], float] = {}
    for chance, tokens in outcomes(emit):
        emitted[tokens] = emitted.get(tokens, 0.0) + chance
    law = partial(target_law, params)
    return total_variation(continued(emitted, law, DEPTH + 1), continued({(): 1.0}, law, DEPTH + 1))


OPTIONS = {
    "chain": ModelDrafterOptions(is_sampled=True),
    "cool chain": ModelDrafterOptions(is_sampled=True, heat=DraftHeat(temperature=0.4)),
    "chain with a hot end": ModelDrafterOptions(is_sampled=True, heat=DraftHeat(eos_temperature=3.0, eos_ids=(1,))),
    "chain of few candidates": ModelDrafterOptions(is_sampled=True, heat=DraftHeat(max_candidates=2)),
    "cold chain": ModelDrafterOptions(is_sampled=True, heat=DraftHeat(temperature=0.0)),
}


@pytest.mark.parametrize("params", [WARM, CUT], ids=["warm", "cut"])
@pytest.mark.parametrize("rule", ["rejection", "block", "recursive"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_sampled_chains_keep_the_targets_law(options: ModelDrafterOptions, rule: str, params: SamplingParams) -> None:
    assert distance(lambda noise: sampling_drafter(noise, options), rule, params, nodes=DEPTH) < 1e-9


@pytest.mark.parametrize("nodes", [3, 4])
@pytest.mark.parametrize("params", [WARM, CUT], ids=["warm", "cut"])
def test_sampled_trees_keep_the_targets_law(params: SamplingParams, nodes: int) -> None:
    """Siblings are drawn without replacement, and a node budget ends levels before they are drawn."""
    options = ModelDrafterOptions(is_sampled=True, branching=(2, 2))
    assert distance(lambda noise: sampling_drafter(noise, options), "recursive", params, nodes) < 1e-9


DETERMINISTIC: dict[str, Callable[[ForkingNoise], Drafter]] = {
    "n-gram": lambda noise: NgramDrafter(node_cost=0.0),
    "suffix": lambda noise: SuffixDrafter(node_cost=0.0),
    "suffix tree": lambda noise: SuffixDrafter(node_cost=0.0, width=2),
    "cold model": lambda noise: sampling_drafter(noise, OPTIONS["cold chain"]),
}


@pytest.mark.parametrize(
    ("name", "rule"),
    [*product(["n-gram", "suffix", "cold model"], ["rejection", "block", "recursive"]), ("suffix tree", "recursive")],
)
def test_drafts_without_laws_keep_the_targets_law(name: str, rule: str) -> None:
    assert distance(DETERMINISTIC[name], rule, WARM, nodes=4 if name == "suffix tree" else DEPTH) < 1e-9


def test_the_enumeration_sees_a_law_that_was_not_drawn_from() -> None:
    """The tests above can fail: reporting another temperature than the one drawn with is found."""

    class Lying(ModelDrafter):
        def propose(self, batch, plan):  # type: ignore[no-untyped-def]
            proposal = super().propose(batch, plan)
            assert proposal.laws is not None
            return replace(proposal, laws=replace(proposal.laws, probabilities=proposal.laws.probabilities[::-1]))

    def build(noise: ForkingNoise) -> Drafter:
        honest = sampling_drafter(noise, OPTIONS["chain"])
        lying = Lying.__new__(Lying)
        lying.__dict__.update(honest.__dict__)
        return lying

    assert distance(build, "rejection", WARM, nodes=DEPTH) > 1e-3


@pytest.mark.parametrize("branching", [(), (2,), (2, 2), (3, 1)], ids=str)
def test_reported_laws_are_the_laws_drawn_from(branching: tuple[int, ...]) -> None:
    """The chance of every tree is the product of its nodes' shares in the laws it names, elder siblings taken out."""
    options = ModelDrafterOptions(is_sampled=True, branching=branching)

    def draw(noise: ForkingNoise) -> Proposal:
        batch = batch_for(row(WARM))
        return sampling_drafter(noise, options).propose(batch, plan_for(batch, 6, DEPTH))

    total = 0.0
    for chance, proposal in outcomes(draw):
        assert chance == pytest.approx(reported_chance(proposal), abs=1e-12)
        total += chance
    assert total == pytest.approx(1.0)


def reported_chance(proposal: Proposal) -> float:
    laws = proposal.laws
    assert laws is not None
    chance = 1.0
    elders: dict[int, float] = {}
    for token, law in zip(proposal.tokens.tolist(), laws.of.tolist(), strict=True):
        part = slice(int(laws.starts[law]), int(laws.starts[law + 1]))
        share = dict(zip(laws.ids[part].tolist(), laws.probabilities[part].tolist(), strict=True))[token]
        chance *= share / (1.0 - elders.get(law, 0.0))
        elders[law] = elders.get(law, 0.0) + share
    return chance


def test_the_reported_law_is_the_draft_models() -> None:
    laws: list[dict[int, float]] = []
    for _, proposal in outcomes(
        lambda noise: sampling_drafter(noise, OPTIONS["chain"]).propose(
            batch_for(row(WARM)), plan_for(batch_for(row(WARM)), 1)
        )
    ):
        assert proposal.laws is not None
        laws.append(dict(zip(proposal.laws.ids.tolist(), proposal.laws.probabilities.tolist(), strict=True)))
    logits = hashed_law(VOCAB, spread=1.0, salt=4)(tuple(KNOWN)).astype(np.float64)
    weights = np.exp(logits - logits.max())
    expected = dict(enumerate((weights / weights.sum()).tolist()))
    assert all(law == pytest.approx(expected) for law in laws)
    assert len(laws) == VOCAB


def test_drafting_draws_nothing_for_greedy_rows() -> None:
    noise = ForkingNoise([])
    drafter = sampling_drafter(noise, ModelDrafterOptions(is_sampled=True))
    assert len(propose(drafter, row(SamplingParams(temperature=0.0)), nodes=2)[0]) == 2
    assert noise.taken == []
