"""Over many steps of a request no key of the noise is drawn twice, so that steps are independent draws."""

from __future__ import annotations

import pytest

from paradraft.core.arrays import DoubleArray, IntArray
from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.rules import make_rule
from support.draft_sampling import Drafting, law_by_prefix, sampled_chain, sampled_tree
from support.steps import decide, sampling_of
from support.stub_target import hashed_law

VOCAB = 6
LOGITS = hashed_law(VOCAB, spread=1.0)


class StrictNoise(GumbelNoise):
    """Refuses to give the same key twice."""

    def __init__(self, seed: int, choice: int) -> None:
        super().__init__(seed, choice)
        self.drawn: set[tuple[int, int]] = set()

    def flip(self, probability: float, *, position: int, stream: int) -> bool:
        self._note(position, stream)
        return super().flip(probability, position=position, stream=stream)

    def choose(self, weights: DoubleArray, ids: IntArray | None, *, position: int, stream: int) -> int:
        self._note(position, stream)
        return super().choose(weights, ids, position=position, stream=stream)

    def _note(self, position: int, stream: int) -> None:
        assert (position, stream) not in self.drawn, f"position {position}, stream {stream} is drawn twice"
        self.drawn.add((position, stream))


@pytest.mark.parametrize(
    ("rule", "drafting"),
    [
        ("coupled", sampled_tree(3, 2, 1)),
        ("rejection", sampled_chain(5)),
        ("block", sampled_chain(5)),
        ("recursive", sampled_tree(3, 2, 1)),
    ],
)
def test_no_key_is_drawn_twice_in_a_request(rule: str, drafting: Drafting) -> None:
    noise = StrictNoise(11, 0)
    acceptor = RuleAcceptor(make_rule(rule), noise=lambda seed, choice: noise)
    sampling = sampling_of(SamplingParams(), prompt_len=2, seed=11)
    known, lengths = [1, 2], set()
    for step in range(60):
        draft = drafting(noise, law_by_prefix("random", VOCAB, step), len(known))
        tokens = decide(acceptor, [known], [sampling], [draft], LOGITS).tokens_of(0).tolist()
        lengths.add(len(tokens))
        known.extend(tokens)
    assert len(lengths) > 2
