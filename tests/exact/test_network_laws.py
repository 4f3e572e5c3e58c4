"""Every outcome of a step whose drafts come from a trained network's real q, enumerated: the output has p's law."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from paradraft.core.arrays import DoubleArray, ints, starts_of
from paradraft.core.records import Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.neural.drafter import NeuralDrafter
from paradraft.drafters.neural.options import NeuralOptions
from paradraft.kv.pages import PageCache
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.serving.native import NativeServed
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.serve import ServedNetwork, serve_net
from paradraft.nets.vocabulary import DraftVocabulary
from paradraft.scheduling.verification import cut
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.law import law_of
from paradraft.verify.rules import make_rule
from support.drafting import RowText, batch_for, plan_for, verdict_of
from support.drafting_nets import native_network
from support.enumeration import ForkingNoise, continued, outcomes, total_variation
from support.steps import Draft, scores_of
from support.stub_target import StubScores, hashed_law

VOCAB, SIZE, DEPTH = 5, 16, 2
KNOWN = [2, 1, 3, 4, 1, 0, 2, 1]
TARGET = hashed_law(VOCAB, spread=1.0)
WARM = SamplingParams(temperature=1.0)
PRICES = {"dspark": 0.45, "eagle3": 0.3}  # that some of the second nodes are worth
CUT = SamplingParams(temperature=0.7, top_k=3, top_p=0.9)
KINDS = {
    "dflash": {"method": "dflash"},
    "dspark": {"method": "dspark", "markov_rank": 4, "has_confidence": True},
    "native dflash": {"method": "dflash"},
    "native dspark": {"method": "dspark", "markov_rank": 4, "markov_kind": "gated", "has_confidence": True},
    "gated dspark": {"method": "dspark", "markov_rank": 4, "markov_kind": "gated"},
    "reduced dspark": {"method": "dspark", "markov_rank": 4, "draft_vocab_size": 3},
    "peagle": {"method": "peagle", "has_head_norms": False},
    "eagle3": {"method": "eagle3", "num_layers": 1, "has_head_norms": False},
    "native peagle": {"method": "peagle", "norm_before_residual": True},
    "native eagle3": {"method": "eagle3", "num_layers": 2, "has_head_norms": False},
    "medusa": {"method": "medusa", "num_layers": 0, "tap_layers": (2,), "markov_rank": 4},
}


def config_of(kind: str) -> NetConfig:
    values = {
        "hidden_size": SIZE,
        "intermediate_size": 24,
        "num_layers": 2,
        "num_heads": 2,
        "num_key_heads": 1,
        "head_dim": 8,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_positions": 64,
        "vocab_size": VOCAB,
        "draft_vocab_size": VOCAB,
        "block_size": 3,
        "mask_token_id": 0,
        "tap_layers": (0, 1, 2),
        "num_target_layers": 3,
        "has_head_norms": True,
        **KINDS[kind],
    }
    return NetConfig(**values)


def taps_of(tokens: np.ndarray) -> np.ndarray:
    """Return made-up hidden states [n, d], the same for all layers."""
    return np.random.default_rng(1).standard_normal((VOCAB, SIZE)).astype(np.float32)[tokens]


@cache
def network_for(kind: str) -> ServedNetwork | NativeServed:
    """Return a network trained for a moment on texts of the target, served."""
    config = config_of(kind)
    torch.manual_seed(0)
    embedding = torch.randn(VOCAB, SIZE)
    vocabulary = DraftVocabulary.of(torch.tensor([0, 1, 3, 4, 2][: config.draft_vocab_size]), VOCAB)
    net = build_net(config, embedding, embedding[vocabulary.ids], vocabulary)
    ids = texts(24)
    weights = torch.optim.AdamW(net.parameters(), lr=5e-3)
    anchors = torch.arange(1, len(ids) - 4, 2)
    example = TrainingBatch(
        ids=ids,
        taps=torch.from_numpy(taps_of(ids.numpy())).repeat(1, config.num_taps),
        anchors=anchors,
        doc=torch.zeros(len(ids), dtype=torch.int64),
    )
    labels = vocabulary.draft_ids(ids[anchors[:, None] + torch.arange(1, 4)]).flatten()
    for _ in range(15):
        loss = functional.cross_entropy(
            net.draft_training(example).logits.flatten(0, 1)[labels >= 0], labels[labels >= 0]
        )
        weights.zero_grad()
        loss.backward()
        weights.step()
    if kind.startswith("native"):
        return native_network(net, num_pages=16, page_size=4)
    place = ServingPlace(dtype=torch.float32, device=torch.device("cpu"), num_pages=16, page_size=4)
    return serve_net(net, place)


def texts(count: int) -> torch.Tensor:
    draw, known = np.random.default_rng(5), [1]
    for _ in range(count):
        weights = np.exp(TARGET(tuple(known)).astype(np.float64))
        known.append(int(draw.choice(VOCAB, p=weights / weights.sum())))
    return torch.tensor(known)


def drafter_for(kind: str, noise: ForkingNoise, params: SamplingParams) -> NeuralDrafter:
    """Return a drafter that has read the text up to the anchor."""
    pages = PageCache(num_pages=16, page_size=4)
    options = NeuralOptions(is_sampled=True)
    drafter = NeuralDrafter(network_for(kind), pages, options=options, noise=lambda seed, choice: noise)
    prompt = batch_for(RowText(tokens=KNOWN[:-1], cached=0, params=params, prompt_len=len(KNOWN)))

    class Taps(StubScores):
        def hidden(self, layer: int) -> np.ndarray:
            return taps_of(ints(KNOWN[:-1]))

    scores = Taps([], starts_of([0]), starts_of([len(KNOWN) - 1]))
    drafter.observe(prompt, Proposal.empty(1), scores, verdict_of(([], [KNOWN[-1]])))
    return drafter


def row(params: SamplingParams) -> RowText:
    return RowText(tokens=KNOWN, params=params, prompt_len=len(KNOWN))


def target_law(params: SamplingParams, tokens: tuple[int, ...]) -> DoubleArray:
    history = np.array([*KNOWN, *tokens], dtype=np.int32)
    law = law_of(TARGET(tuple(history.tolist())), batch_for(row(params)).sampling[0], history)
    vector = np.zeros(VOCAB)
    vector[slice(None) if law.ids is None else law.ids] = law.probabilities
    return vector


def distance(
    kind: str, rule: str, params: SamplingParams, *, is_lying: bool = False, price: float = 0.0, is_own: bool = False
) -> tuple[float, set[int]]:
    """Return the total variation of a step's output, carried on by the target, from its law; and the drafts' lengths.

    price: a chain is cut at the first node whose confidence is lower; is_own: whose own probability is, which is wrong.
    """
    lengths: set[int] = set()

    def emit(noise: ForkingNoise) -> tuple[int, ...]:
        batch = batch_for(row(params))
        proposal = drafter_for(kind, noise, params).propose(batch, plan_for(batch, DEPTH))
        assert proposal.laws is not None
        assert len(proposal.tokens) == DEPTH
        if is_lying:
            proposal = replace(
                proposal, laws=replace(proposal.laws, probabilities=proposal.laws.probabilities[::-1].copy())
            )
        assert proposal.confidence is not None
        said = own_chances(proposal) if is_own else proposal.confidence.tolist()
        proposal = cut(proposal, [node for node, chance in enumerate(said) if chance >= price])
        lengths.add(len(proposal.tokens))
        draft = Draft(tokens=proposal.tokens.tolist(), parents=proposal.parents.tolist())
        acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise)
        return tuple(acceptor.accept(batch, proposal, scores_of(batch, [draft], TARGET)).tokens_of(0).tolist())

    emitted: dict[tuple[int, ...], float] = {}
    for chance, tokens in outcomes(emit):
        emitted[tokens] = emitted.get(tokens, 0.0) + chance
    law = partial(target_law, params)
    return total_variation(continued(emitted, law, DEPTH + 1), continued({(): 1.0}, law, DEPTH + 1)), lengths


def own_chances(proposal: Proposal) -> list[float]:
    """Return what a chain's tokens themselves had, multiplied along it."""
    laws, product, found = proposal.laws, 1.0, []
    for token, law in zip(proposal.tokens.tolist(), laws.of.tolist(), strict=True):
        part = slice(int(laws.starts[law]), int(laws.starts[law + 1]))
        product *= float(laws.probabilities[part][laws.ids[part] == token][0])
        found.append(product)
    return found


@pytest.mark.parametrize("params", [WARM, CUT], ids=["warm", "cut"])
@pytest.mark.parametrize("rule", ["rejection", "block", "recursive"])
@pytest.mark.parametrize("kind", ["dflash", "dspark", "gated dspark", "reduced dspark"])
def test_drafts_of_a_network_keep_the_targets_law(kind: str, rule: str, params: SamplingParams) -> None:
    assert distance(kind, rule, params)[0] < 1e-9


@pytest.mark.parametrize("kind", ["peagle", "eagle3", "medusa"])
def test_drafts_of_networks_that_read_pairs_keep_the_targets_law(kind: str) -> None:
    assert distance(kind, "rejection", WARM)[0] < 1e-9


def test_the_enumeration_sees_a_law_that_was_not_drawn_from() -> None:
    assert distance("dspark", "rejection", WARM, is_lying=True)[0] > 1e-3


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive"])
@pytest.mark.parametrize("kind", ["dspark", "eagle3"])
def test_chains_cut_by_the_confidence_that_a_network_reports_keep_the_law(kind: str, rule: str) -> None:
    """It follows from the law of a node, which its ancestors settle, and not from the token that is drawn."""
    error, lengths = distance(kind, rule, WARM, price=PRICES[kind])
    assert error < 1e-9
    assert len(lengths) > 1


def test_the_enumeration_sees_chains_cut_by_what_was_drawn() -> None:
    error, lengths = distance("dspark", "rejection", WARM, price=0.2, is_own=True)
    assert len(lengths) > 1
    assert error > 1e-3


def test_a_correction_makes_the_second_law_depend_on_the_first_draft() -> None:
    """Drawn from the corrected law: otherwise the q that is reported would not be the q that was used."""
    second: dict[int, tuple[float, ...]] = {}
    for _, proposal in outcomes(lambda noise: _propose("dspark", noise)):
        start, stop = proposal.laws.starts[1], proposal.laws.starts[2]
        order = np.argsort(proposal.laws.ids[start:stop])
        law = tuple(proposal.laws.probabilities[start:stop][order].round(9))
        assert second.setdefault(int(proposal.tokens[0]), law) == law
    assert len(set(second.values())) == VOCAB


def _propose(kind: str, noise: ForkingNoise) -> Proposal:
    batch = batch_for(row(WARM))
    return drafter_for(kind, noise, WARM).propose(batch, plan_for(batch, DEPTH))
