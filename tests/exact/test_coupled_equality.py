"""Under the coupled rule the tokens are those of plain decoding: equal, not alike, for every seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.native.chooser import find_chooser
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.law import Law as TokenLaw
from paradraft.verify.law import law_of
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.rules import make_rule
from support.steps import Draft, decide, decode, sampling_of
from support.stub_target import Law, hashed_law

VOCAB, COUNT, NUM_SEEDS = 40, 12, 200
PROMPT = (3, 14, 15)
COUPLED = RuleAcceptor(make_rule("coupled"))
Drafter = Callable[[tuple[int, ...]], Draft]


def remembering(law: Law) -> Law:
    known: dict[tuple[int, ...], FloatArray] = {}

    def remembered(prefix: tuple[int, ...]) -> FloatArray:
        if prefix not in known:
            known[prefix] = law(prefix)
        return known[prefix]

    return remembered


LOGITS = remembering(hashed_law(VOCAB, spread=2.0))


def random_tree(rng: np.random.Generator, num_nodes: int = 9) -> Drafter:
    """Trees of any shape, of the target's favourites and of noise, with laws that nothing was drawn from."""

    def drafter(known: tuple[int, ...]) -> Draft:
        draft = Draft()
        for _ in range(num_nodes):
            parent = int(rng.integers(-1, len(draft.tokens)))
            ranking = np.argsort(-LOGITS((*known, *draft.path(parent))))
            token = int(ranking[rng.integers(3)]) if rng.random() < 0.8 else int(rng.integers(VOCAB))
            lie = TokenLaw(ids=ints([0, 1]), probabilities=np.array([0.999, 0.001]))
            if not draft.has_child(parent, token):
                draft.add(token, parent, lie if rng.random() < 0.5 else None)
        return draft

    return drafter


def sharing_noise(sampling: RowSampling, depth: int = 4) -> Drafter:
    """A chain of the drafter's own choices under the same noise, its law the target's at another temperature."""

    def drafter(known: tuple[int, ...]) -> Draft:
        draft, node = Draft(), -1
        for level in range(depth):
            prefix = (*known, *draft.path(node))
            hotter = sampling_of(SamplingParams(temperature=1.2), prompt_len=len(PROMPT))
            q = law_of(LOGITS(prefix), hotter, ints(prefix))
            noise = GumbelNoise(sampling.seed, sampling.choice)
            scores = np.log(q.probabilities) + noise.gumbel(ints(range(VOCAB)), position=len(known) + level)
            node = draft.add(int(scores.argmax()), node)
        return draft

    return drafter


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_any_tree_gives_the_tokens_of_plain_decoding(temperature: float) -> None:
    num_drafted = 0
    for seed in range(NUM_SEEDS):
        sampling = sampling_of(SamplingParams(temperature=temperature), prompt_len=len(PROMPT), seed=seed)
        plain = decode(COUPLED, PROMPT, sampling, LOGITS, COUNT)
        tree = random_tree(np.random.default_rng(seed))
        assert decode(COUPLED, PROMPT, sampling, LOGITS, COUNT, tree) == plain, f"seed {seed}"
        first = decide(COUPLED, [PROMPT], [sampling], [tree(PROMPT)], LOGITS)
        num_drafted += len(first.path)
    assert num_drafted > NUM_SEEDS / 5, "the trees were never right, so the test shows nothing"


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7, top_p=0.8),
        SamplingParams(temperature=1.0, top_k=5, min_p=0.02),
        SamplingParams(temperature=1.0, repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.2),
        SamplingParams(temperature=1.0, logit_bias={3: 4.0, 5: -100.0}, min_tokens=6),
        SamplingParams(temperature=0.0, repetition_penalty=1.5),
        SamplingParams(temperature=0.0),
    ],
)
def test_any_tree_gives_the_tokens_of_plain_decoding_with_every_parameter(params: SamplingParams) -> None:
    for seed in range(20):
        sampling = sampling_of(params, prompt_len=len(PROMPT), seed=seed, stop_ids=(3, 7))
        plain = decode(COUPLED, PROMPT, sampling, LOGITS, COUNT)
        tree = random_tree(np.random.default_rng(seed))
        assert decode(COUPLED, PROMPT, sampling, LOGITS, COUNT, tree) == plain, f"seed {seed}"


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_a_drafter_that_shares_the_noise_changes_nothing_and_is_accepted_more(temperature: float) -> None:
    shared = independent = 0
    for seed in range(60):
        sampling = sampling_of(SamplingParams(temperature=temperature), prompt_len=len(PROMPT), seed=seed)
        plain = decode(COUPLED, PROMPT, sampling, LOGITS, COUNT)
        drafter = sharing_noise(sampling)
        assert decode(COUPLED, PROMPT, sampling, LOGITS, COUNT, drafter) == plain
        shared += len(decide(COUPLED, [PROMPT], [sampling], [drafter(PROMPT)], LOGITS).path)
        stranger = sharing_noise(sampling_of(SamplingParams(), prompt_len=len(PROMPT), seed=seed + 1000))
        independent += len(decide(COUPLED, [PROMPT], [sampling], [stranger(PROMPT)], LOGITS).path)
    assert shared > 2 * independent


def test_vocabularies_longer_than_the_head_of_the_race_are_covered() -> None:
    wide = remembering(hashed_law(1500, spread=0.3))
    from_tail = 0
    native = RuleAcceptor(make_rule("coupled"), chooser=find_chooser())
    for seed in range(NUM_SEEDS):
        sampling = sampling_of(SamplingParams(temperature=1.0), prompt_len=1, seed=seed)
        plain = decode(COUPLED, [5], sampling, wide, 6)

        def oracle(known: tuple[int, ...], plain: list[int] = plain) -> Draft:
            rest = plain[len(known) - 1 :][:3]
            return Draft(tokens=rest, parents=list(range(-1, len(rest) - 1)), laws=[None] * len(rest))

        assert decode(COUPLED, [5], sampling, wide, 6, oracle) == plain
        assert decode(native, [5], sampling, wide, 6, oracle) == plain
        ranks = np.argsort(np.argsort(-wide((5,))))
        from_tail += int(ranks[plain[0]] >= 256)
    assert from_tail > NUM_SEEDS / 5


def test_the_tokens_are_the_argmax_of_log_p_plus_noise() -> None:
    for seed in range(50):
        sampling = sampling_of(SamplingParams(temperature=0.9), prompt_len=len(PROMPT), seed=seed, choice=2)
        known = list(PROMPT)
        for token in decode(COUPLED, PROMPT, sampling, LOGITS, 6):
            noise = GumbelNoise(seed, 2).gumbel(ints(range(VOCAB)), position=len(known))
            assert token == int((LOGITS(tuple(known)) / np.float32(0.9) + noise).argmax())
            known.append(token)


def test_the_order_and_company_of_rows_change_nothing() -> None:
    sampling = [sampling_of(SamplingParams(), prompt_len=3, seed=seed, choice=seed % 2) for seed in range(6)]
    prompts = [(seed, 2 * seed, 5) for seed in range(6)]
    tree = random_tree(np.random.default_rng(1))
    drafts = [tree(prompt) for prompt in prompts]
    together = decide(COUPLED, prompts, sampling, drafts, LOGITS)
    reverse = decide(COUPLED, prompts[::-1], sampling[::-1], drafts[::-1], LOGITS)
    for row in range(6):
        alone = decide(COUPLED, [prompts[row]], [sampling[row]], [drafts[row]], LOGITS)
        assert together.tokens_of(row).tolist() == alone.tokens_of(0).tolist()
        assert together.tokens_of(row).tolist() == reverse.tokens_of(5 - row).tolist()
        assert together.path_of(row).tolist() == alone.path_of(0).tolist()


def test_seed_and_choice_matter_and_repeats_do_not() -> None:
    params = SamplingParams(temperature=2.0)
    texts = {
        (seed, choice): tuple(
            decode(COUPLED, PROMPT, sampling_of(params, prompt_len=3, seed=seed, choice=choice), LOGITS, 10)
        )
        for seed in (0, 42, 2**64 - 1)
        for choice in (0, 1, 2)
    }
    assert len(set(texts.values())) == 9
    again = decode(COUPLED, PROMPT, sampling_of(params, prompt_len=3, seed=42), LOGITS, 10)
    assert tuple(again) == texts[42, 0]
