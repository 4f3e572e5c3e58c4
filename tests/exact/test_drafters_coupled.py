"""Under the coupled rule a seed gives plain decoding's tokens with every drafter, depth, tree and batch."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftHeat
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.recent import RecentDrafter
from support.drafting import DRAFTERS, build_model_drafter
from support.engines import LAW, VOCAB, build_engine, ids_of, request, run

PROMPTS = [[5, 9, 5, 9, 5], [1, 2, 3, 4, 5, 6], [8, 8, 8]]
SEEDS = range(0, 200, 25)


def sampled(drafter: object, seed: int, temperature: float, gamma: int) -> list[list[int]]:
    params = SamplingParams(temperature=temperature, max_tokens=12)
    engine = build_engine(drafter, gamma=gamma, nodes=2 * gamma)  # type: ignore[arg-type]
    events = run(
        engine, *[request(str(place), prompt, params, seed=seed + place) for place, prompt in enumerate(PROMPTS)]
    )
    return [ids_of(events[str(place), 0]) for place in range(len(PROMPTS))]


@pytest.fixture(scope="module")
def plain() -> dict[tuple[int, float], list[list[int]]]:
    return {(seed, heat): sampled(None, seed, heat, 1) for seed in SEEDS for heat in (0.7, 1.0)}


@pytest.mark.parametrize("gamma", [1, 3, 7])
@pytest.mark.parametrize("name", DRAFTERS)
def test_every_drafter_gives_the_seeds_own_tokens(name: str, gamma: int, plain: dict) -> None:  # type: ignore[type-arg]
    for (seed, heat), expected in plain.items():
        if seed % 50 == 0:
            assert sampled(DRAFTERS[name](), seed, heat, gamma) == expected


def test_the_model_as_its_own_drafter_foretells_every_sampled_token(plain: dict) -> None:  # type: ignore[type-arg]
    """Ranking by log q plus the target's own noise names the target's choice whenever q is p."""
    params = SamplingParams(temperature=1.0, max_tokens=25)
    for seed in SEEDS:
        engine = build_engine(build_model_drafter(law=LAW), gamma=4, nodes=4)
        last = run(engine, request("self", PROMPTS[1], params, seed=seed))["self", 0][-1]
        assert last.stats is not None
        assert last.stats.tau == 5.0


def test_coupled_drafts_are_accepted_more_often_than_the_most_probable_ones() -> None:
    """Warm targets seldom choose their best token, so a drafter that follows the noise is worth more."""

    def accepted(drafter: ModelDrafter) -> int:
        params = SamplingParams(temperature=1.0, max_tokens=40)
        total = 0
        for seed in SEEDS:
            engine = build_engine(drafter, gamma=3, nodes=3)
            last = run(engine, request("warm", PROMPTS[1], params, seed=seed))["warm", 0][-1]
            assert last.stats is not None
            total += last.stats.accepted
        return total

    cold = build_model_drafter(ModelDrafterOptions(heat=DraftHeat(temperature=0.0)), law=LAW)
    assert accepted(build_model_drafter(law=LAW)) > 1.5 * accepted(cold)


@pytest.mark.parametrize("name", ["suffix", "merged"])
def test_look_ups_that_follow_the_noise_are_accepted_more_often(name: str) -> None:
    """A text that was sampled goes on in many ways after the same words; the noise tells which of them it will be."""

    def law(prefix: tuple[int, ...]) -> FloatArray:
        logits = np.full(VOCAB, -30.0, dtype=np.float32)
        logits[[(prefix[-1] + step) % 8 for step in (1, 2, 3)]] = np.log([0.5, 0.3, 0.2])
        return logits

    def accepted(*, is_coupled: bool) -> int:
        suffix = SuffixDrafter(node_cost=0.0, is_coupled=is_coupled)
        sources = [suffix, RecentDrafter()]
        merged = MergedDrafter(sources, vocab_size=VOCAB, width=1, node_cost=0.0, is_coupled=is_coupled)
        drafter, total = suffix if name == "suffix" else merged, 0
        for seed in range(6):
            engine = build_engine(drafter, law=law, gamma=3, nodes=3)
            params = SamplingParams(temperature=1.0, max_tokens=100)
            last = run(engine, request("warm", PROMPTS[1], params, seed=seed))["warm", 0][-1]
            assert last.stats is not None
            total += last.stats.accepted
        return total

    assert accepted(is_coupled=True) > 1.3 * accepted(is_coupled=False)
